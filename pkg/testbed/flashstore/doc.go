// Package flashstore is TiKV in recovery mode with very many regions and no keys: stores that elect leaders, take
// prepares and flashbacks by TiKV's rules, and need a time of their own for each call. It is for measuring how a
// flashback of a large cluster is driven; what a flashback does to keys, tikvtest knows.
//
// A volume may be modelled that reads what flashbacks walk, logs of which some are longer, and the process outside recovery
// mode, which only reports which regions it leads.
//
// It keeps: no leader before RecoverRegion, none after a restart; what is prepared and flashed outlives a
// restart; a call with a wrong epoch, range or store is refused; a flashback needs its prepare, and the same
// call again changes nothing.
package flashstore
