package seed

import "strings"

// inMarkdown formats the n-th post of a user: each in one of several ways.
func inMarkdown(content string, n int) string {
	first, rest, _ := strings.Cut(content, "\n\n")
	lead, after, _ := strings.Cut(first, ". ")
	text := "**" + strings.TrimSuffix(lead, ".") + ".**"
	if after != "" {
		text += " " + after
	}
	if rest == "" {
		return text
	}
	switch points := strings.SplitAfter(rest, ". "); n % 5 {
	case 0:
		return text + "\n\n## What I would do again\n\n- " + strings.Join(points, "\n- ")
	case 1:
		return text + "\n\n> " + strings.Join(points, "\n> ")
	case 2:
		return text + "\n\n### In the end\n\n*" + strings.TrimSpace(points[0]) + "* " + strings.Join(points[1:], "")
	case 3:
		return text + "\n\n1. " + strings.Join(points, "\n2. ")
	default:
		return text + "\n\n---\n\n" + rest + "\n\nWritten in [Markdown](https://commonmark.org)."
	}
}
