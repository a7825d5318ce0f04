// Package provision creates databases and containers, compares existing ones with what requests need, and writes the
// same definitions for Azure's tools: as resources of an ARM template, in Bicep, or as commands of the Azure CLI.
//
// It never changes a container that exists. Its functions are safe for concurrent use, also by several processes.
package provision
