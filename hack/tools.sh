# shellcheck shell=bash
# The cache of what is built or installed for tests: a folder of the user's cache per content of the files that pin it, so
# that it is made once per machine and not once per worktree. To be sourced, not run.

# tool_folder NAME FILE... prints the folder of the tool pinned by these files.
tool_folder() {
  printf '%s/%s/%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/tisnap" "$1" "$(cat "${@:2}" | sha256sum | cut -c1-16)"
}

# lock_tool FOLDER keeps two processes from making it at once. The lock is released with the process.
lock_tool() {
  mkdir -p "$(dirname "$1")"
  exec 9>"$1.lock"
  flock 9
}

# tool_files FOLDER prints its files, NUL-terminated, without what Python writes while it runs.
tool_files() { (cd "$1" && find . -name __pycache__ -prune -o -type f ! -name ".sums*" -print0 | sort -z); }

# seal_tool FOLDER records its content; a folder without that record is not used.
seal_tool() {
  tool_files "$1" | (cd "$1" && xargs -0 sha256sum >.sums.new && mv .sums.new .sums)
}

# whole_tool FOLDER reports whether its content is as sealed, and removes it if not.
whole_tool() {
  if [ -s "$1/.sums" ] && (cd "$1" && sha256sum --check --quiet --strict .sums >&2); then return 0; fi
  [ ! -e "$1" ] || rm -rf "$1"
  return 1
}
