package index

import (
	"slices"
	"strings"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/fulltext"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/sql"
)

// TextPolicy is the protocol's full-text policy: the properties with texts, and their languages.
type TextPolicy struct {
	DefaultLanguage string           `json:"defaultLanguage"`
	Paths           []textPolicyPath `json:"fullTextPaths"`
}

type textPolicyPath struct {
	Path     string `json:"path"`
	Language string `json:"language,omitempty"` // "": the default
}

type textIndexPath struct {
	Path string `json:"path"`
}

// Text is a property with a text.
type Text struct {
	Path     sql.Path
	Analyzer fulltext.Analyzer
	Indexed  bool
}

// Complete checks the policy, which may be nil, and that it has the paths of the indexing policy's full-text indexes.
func (t *TextPolicy) Complete(p *Policy) error {
	var all []sql.Path
	if t != nil && t.Paths == nil {
		t.Paths = []textPolicyPath{}
	}
	if t != nil && (t.DefaultLanguage != "" || len(t.Paths) > 0) {
		if err := checkLanguage(t.DefaultLanguage); err != nil {
			return err
		}
		for _, one := range t.Paths {
			path, ok := parseTextPath(one.Path)
			if !ok {
				return apierror.BadRequest("The Full Text Policy contains an invalid Path: %s", one.Path)
			}
			if containsPath(all, path) {
				return apierror.BadRequest("The Full Text Policy contains the Path %s more than once.", one.Path)
			}
			all = append(all, path)
			if one.Language == "" {
				continue
			}
			if err := checkLanguage(one.Language); err != nil {
				return err
			}
		}
	}
	var indexed []sql.Path
	for i, one := range p.FullText {
		path, ok := parseTextPath(one.Path)
		switch {
		case one.Path == "":
			return apierror.BadRequest("Missing path in full-text index specification at index (%d).", i)
		case !ok:
			return apierror.BadRequest("Full-text index specification at index (%d) contains invalid path %s.", i,
				one.Path)
		case !containsPath(all, path):
			return apierror.BadRequest(
				"The path of the Full Text Index %s does not match the path specified in the Full Text Policy.",
				one.Path)
		case containsPath(indexed, path):
			return apierror.BadRequest("The path of the Full Text Index %s occurs more than once.", one.Path)
		}
		indexed = append(indexed, path)
	}
	return nil
}

func checkLanguage(name string) error {
	if slices.Contains(fulltext.Languages, name) {
		return nil
	}
	return apierror.BadRequest(
		"The Full Text Policy contains an unsupported language %s. Supported languages are: %s.", name,
		`"`+strings.Join(fulltext.Languages, `", "`)+`"`)
}

// parseTextPath parses the path of a full-text policy or index, which has no wildcards and no array elements.
func parseTextPath(s string) (sql.Path, bool) {
	path, err := ParsePath(s)
	if err != nil || len(path) == 0 || strings.HasSuffix(s, "/") || layout.IsSystemProperty(path[0]) {
		return nil, false
	}
	return path, !slices.ContainsFunc(path, func(name string) bool {
		return name == "*" || name == "?" || name == "[]" || strings.Trim(name, "0123456789") == ""
	})
}

func containsPath(paths []sql.Path, path sql.Path) bool {
	return slices.ContainsFunc(paths, func(p sql.Path) bool { return slices.Equal(p, path) })
}

// texts returns the properties of the policy, which may be nil. It ignores what Complete refuses: it was stored before
// full-text policies were checked.
func (t *TextPolicy) texts(p *Policy) []Text {
	if t == nil {
		return nil
	}
	var list []Text
	for _, one := range t.Paths {
		path, ok := parseTextPath(one.Path)
		if !ok {
			continue
		}
		language := one.Language
		if language == "" {
			language = t.DefaultLanguage
		}
		list = append(list, Text{path, fulltext.For(language), p.Mode != "none" &&
			slices.ContainsFunc(p.FullText, func(i textIndexPath) bool {
				indexed, ok := parseTextPath(i.Path)
				return ok && slices.Equal(indexed, path)
			})})
	}
	return list
}

// HasTexts reports whether there are full-text indexes.
func (x *Indexes) HasTexts() bool {
	return slices.ContainsFunc(x.Texts, func(t Text) bool { return t.Indexed })
}

// Analyzer returns the analyzer of the text at a path.
func (x *Indexes) Analyzer(path sql.Path) fulltext.Analyzer { return x.Text(path).Analyzer }

// Text returns what is known of the text at a path: in a property that no policy names, it is English.
func (x *Indexes) Text(path sql.Path) Text {
	for _, t := range x.Texts {
		if slices.Equal(t.Path, path) {
			return t
		}
	}
	return Text{Path: path, Analyzer: fulltext.For(fulltext.English)}
}
