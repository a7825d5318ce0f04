// Package stored reads and replaces the items of package blog by package cosmos, and converts the errors of Cosmos DB
// to those of the blog.
package stored
