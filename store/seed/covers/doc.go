// Package covers draws the pictures of the demo blog's articles: flat shapes and gradients in one palette.
//
// Draw is a function of its arguments alone, so that equal blogs have equal pictures.
package covers
