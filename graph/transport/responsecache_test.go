package transport

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"

	"byline/internal/testkit"
	"byline/store/cosmos/itemcache"
)

var distinctResponses = flag.Int("distinct", 50_000,
	"number of distinct responses that TestResponseCache_MemoryIsBounded adds")

// Any number of distinct responses takes at most the limit and a tenth of it.
func TestResponseCache_MemoryIsBounded(t *testing.T) {
	testkit.Heavy(t)
	const limit = 16 << 20
	for name, body := range map[string]int{"short": 100, "long": 10_000} {
		t.Run(name, func(t *testing.T) {
			testkit.BoundedHeap(t, limit, func() any {
				a := newResponseCache(nil, limit, nil)
				for n := range *distinctResponses {
					r := httptest.NewRequest(http.MethodPost, "/graphql", nil)
					caller := &Request{readSet: &itemcache.ReadSet{}}
					text := fmt.Sprintf(
						`{"query":"query Post($id: ID!) { post(id: $id) { id title content } }","variables":{"id":"%d"}}`, n)
					a.add(r.WithContext(caller.Begin(r.Context())), requestBody{text: text},
						&graphql.Response{Data: []byte(`"` + strings.Repeat("x", body+n%7) + `"`)})
				}
				a.entries.CleanUp()
				return a
			})
		})
	}
}

func TestIfNoneMatch(t *testing.T) {
	const tag = `"abc"`
	for name, tt := range map[string]struct {
		header []string
		want   bool
	}{
		"none":                       {nil, false},
		"empty":                      {[]string{""}, false},
		"the tag":                    {[]string{tag}, true},
		"weak":                       {[]string{"W/" + tag}, true},
		"any":                        {[]string{"*"}, true},
		"another":                    {[]string{`"abd"`}, false},
		"without quotes":             {[]string{"abc"}, false},
		"any, in quotes":             {[]string{`"*"`}, false},
		"in a list":                  {[]string{`"x",W/"y" ,	"abc"`}, true},
		"in a second line":           {[]string{`"x"`, `"abc"`}, true},
		"not in a list":              {[]string{`"x", "abcd", "ab"`}, false},
		"a comma within another tag": {[]string{`"x,abc"`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := matches(tt.header, tag); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
