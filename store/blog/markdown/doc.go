// Package markdown turns the text of posts and comments into what readers see. The text is CommonMark
// (https://spec.commonmark.org) with GitHub's tables, strikethrough, task lists and bare links.
//
// Render refuses texts that are built to be slow; for all others its time and memory are bounded, see limits.go.
// HTML in the text is shown as text. What is rendered has passed two walls: the syntax tree has only addresses of
// known protocols (tree.go), and a sanitizer with an allow list reads the result (html.go).
//
// Everything is safe for concurrent use. The package does no I/O and starts nothing.
package markdown
