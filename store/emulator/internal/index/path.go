package index

import (
	"strings"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/sql"
)

// ParsePath parses a path of an indexing policy or a partition key: /a/"b c"/d.
func ParsePath(s string) (sql.Path, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, apierror.BadRequest("The path '%s' is invalid.", s)
	}
	var path sql.Path
	for s = s[1:]; s != ""; {
		var one string
		if s[0] == '"' {
			end := strings.IndexByte(s[1:], '"')
			if end < 0 {
				return nil, apierror.BadRequest("The path '/%s' is invalid.", s)
			}
			one, s = s[1:end+1], strings.TrimPrefix(s[end+2:], "/")
		} else {
			one, s, _ = strings.Cut(s, "/")
		}
		if one == "" {
			return nil, apierror.BadRequest("The path '/%s' is invalid.", s)
		}
		path = append(path, one)
	}
	return path, nil
}
