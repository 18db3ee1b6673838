package generate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/tisnap/tisnap/manifests"
)

// document is a YAML document that keeps its comments and the order of its fields.
type document struct{ node *yaml.Node }

// read returns the documents of some files of manifests/, in order.
func read(files ...string) (out []document, err error) {
	for _, file := range files {
		text, err := manifests.Files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var node yaml.Node
			if err := d.Decode(&node); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			out = append(out, document{node.Content[0]})
		}
	}
	return out, nil
}

// write returns the documents as kubectl apply takes them.
func write(documents []document) ([]byte, error) {
	var b bytes.Buffer
	for _, d := range documents {
		b.WriteString("---\n")
		e := yaml.NewEncoder(&b)
		e.SetIndent(2)
		if err := errors.Join(e.Encode(d.node), e.Close()); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// at returns what is at a path of fields and indexes; nil if there is nothing.
func (d document) at(path ...string) *yaml.Node {
	node := d.node
	for _, step := range path {
		if node = child(node, step); node == nil {
			return nil
		}
	}
	return node
}

func child(node *yaml.Node, step string) *yaml.Node {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i < len(node.Content) {
			return node.Content[i]
		}
	default: // it has no children
	}
	return nil
}

// set makes a field a text, and adds it and the objects around it if they are not there.
func (d document) set(text string, path ...string) {
	node := d.node
	for _, step := range path {
		next := child(node, step)
		if next == nil {
			next = &yaml.Node{Kind: yaml.MappingNode}
			node.Content = append(node.Content, scalar(step), next)
		}
		node = next
	}
	node.Content = nil
	node.SetString(text)
}

// remove removes a field from the object at a path.
func (d document) remove(field string, path ...string) {
	node := d.at(path...)
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == field {
			node.Content = slices.Delete(node.Content, i, i+2)
			return
		}
	}
}

func scalar(text string) *yaml.Node {
	var node yaml.Node
	node.SetString(text)
	return &node
}

// list makes a field that is there a list of texts.
func (d document) list(texts []string, path ...string) {
	node := d.at(path...)
	node.Content = nil
	for _, text := range texts {
		node.Content = append(node.Content, scalar(text))
	}
}

// texts are those of the list at a path.
func (d document) texts(path ...string) (out []string) {
	for _, node := range d.at(path...).Content {
		out = append(out, node.Value)
	}
	return out
}
