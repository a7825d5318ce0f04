package emulator

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/emulator/internal/sql"

	"pgregory.net/rapid"
)

// TestEffectivePartitionKey compares the hash with the test vectors of the SDK. They are not
// masked; a V2 key's two topmost bits are cleared for routing.
func TestEffectivePartitionKey(t *testing.T) {
	text := func(s string) component { return component{kind: componentString, text: s} }
	number := func(f float64) component { return component{kind: componentNumber, number: f} }
	for _, v := range []struct {
		name   string
		key    partitionKey
		v1, v2 string
	}{
		{"undefined", partitionKey{{}}, "000000000000000000000000514E28B7", "51622DAA78F835834610ABE56EFF5CB5"},
		{"null", partitionKey{{kind: componentNull}}, "000000000000000000000000E45AD1AB", "778867E4430E67857ACE5C908374FE16"},
		{"true", partitionKey{{kind: componentTrue}}, "0000000000000000000000005E2A8076", "4E711127C5B5A8E4726AC6DD306A3E59"},
		{"false", partitionKey{{kind: componentFalse}}, "0000000000000000000000006C27D09F", "EFE1BE91E90A3439635E0E9E37361EF2"},
		{"zero", partitionKey{number(0)}, "0000000000000000000000001EDA80A6", "555B95BEDAC4B1E9EC1CDC9BB0DDDE58"},
		{"negative zero", partitionKey{number(math.Copysign(0, -1))}, "000000000000000000000000B03DA650", "3D018BB1DF3DB27235766E81FD10406E"},
		{"one", partitionKey{number(1)}, "000000000000000000000000E1655A93", "A0CD98B339BA78A5D0CF6953B87070B0"},
		{"smallest", partitionKey{number(5e-324)}, "000000000000000000000000AC83D318", "0E6CBA63A280927DE485DEF865800139"},
		{"empty string", partitionKey{text("")}, "0000000000000000000000003CCCB0FF", "B2E9366E637A71B4E710384B2F4970A0"},
		{"string", partitionKey{text("asdf")}, "000000000000000000000000B02BABC2", "608BF1D598F5B63AD5520F04FE58C5E8"},
		{"101 bytes", partitionKey{text(strings.Repeat("a", 101))}, "0000000000000000000000003B1B5D8D", "88042541D30C8BF90D7092B1519AE0BC"},
		{"three components", partitionKey{text("/path1"), text("/path2"), text("/path3")},
			"000000000000000000000000A6C6298A0000000000000000000000009D008F2C0000000000000000000000003E47FEA2",
			"B499FD5198AE0F1EB6B77F6E428D2FF0E7A1848BD1102A3B65AFF266874D0FF5ECA5ABC953544CF9BD94776DA5E6EA52"},
	} {
		t.Run(v.name, func(t *testing.T) {
			d := partitionKeyPaths{version: 2, multi: true}
			want, err := hex.DecodeString(v.v2)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(want); i += 16 {
				want[i] &= 0x3F
			}
			if got := d.appendEPK(nil, v.key); !bytes.Equal(got, want) {
				t.Errorf("V2 %X, want %X", got, want)
			}
			if len(v.key) == 1 {
				d.multi = false
				if got := d.appendEPK(nil, v.key); !bytes.Equal(got, want) {
					t.Errorf("V2 %X, want %X", got, want)
				}
			}
			d.version = 1
			if got := formatEPK(d.appendEPK(nil, v.key)); got != v.v1 {
				t.Errorf("V1 %s, want %s", got, v.v1)
			}
		})
	}
}

func genComponent() *rapid.Generator[component] {
	return rapid.OneOf(
		rapid.SampledFrom([]component{{}, {kind: componentNull}, {kind: componentTrue}, {kind: componentFalse}}),
		rapid.Map(rapid.Float64(), func(f float64) component { return component{kind: componentNumber, number: f} }),
		rapid.Map(rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune{0, 1, 0xFF, 'a'}))), func(s string) component { return component{kind: componentString, text: s} }),
	)
}

// TestPartitionKeyEncoding: no key is a prefix of another with the same number of components, and
// every key can be delimited.
func TestPartitionKeyEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "components")
		a := partitionKey(rapid.SliceOfN(genComponent(), n, n).Draw(t, "a"))
		b := partitionKey(rapid.SliceOfN(genComponent(), n, n).Draw(t, "b"))
		ka, kb := a.appendKey(nil), b.appendKey(nil)
		if same := bytes.Equal(ka, kb); !same && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
			t.Fatalf("%v and %v: %q, %q", a, b, ka, kb)
		}
		id := rapid.String().Draw(t, "id")
		if got := keyLength(append(bytes.Clone(ka), id...), n); got != len(ka) {
			t.Fatalf("%v: length %d, want %d", a, got, len(ka))
		}
	})
}

// TestPartitionKeyHeader: the header that the SDK sends for a value equals the key of that value in a
// document.
func TestPartitionKeyHeader(t *testing.T) {
	d := partitionKeyPaths{paths: []sql.Path{{"pk"}}, version: 2}
	for header, doc := range map[string]string{
		`["a"]`: `{"pk":"a"}`, `["\u00e4\u20ac"]`: `{"pk":"ä€"}`, `[1]`: `{"pk":1.0}`, `[1e2]`: `{"pk":100}`,
		`[null]`: `{"pk":null}`, `[true]`: `{"pk":true}`, `[{}]`: `{"x":1}`, `[""]`: `{"pk":""}`,
	} {
		key, err := parsePartitionKey(header)
		if err != nil {
			t.Errorf("%s: %v", header, err)
			continue
		}
		if of, err := d.of([]byte(doc)); err != nil || !of.equal(key) {
			t.Errorf("%s is not the key of %s: %v %v", header, doc, of, err)
		}
	}
	for _, header := range []string{``, `a`, `{}`, `null`, `["a"`, `[[1]]`, `[{"a":1}]`, `["\U0001f600"]`} {
		if key, err := parsePartitionKey(header); err == nil {
			t.Errorf("%s is accepted as %v", header, key)
		}
	}
}

// TestContainer_SeveralPartitions runs all operations on a container with three ranges.
func TestContainer_SeveralPartitions(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	inner := e.catalog.Load().databases["db"].containers["c"]
	inner.ranges = []*partition{{no: 1, max: []byte{0x15}}, {no: 2, min: []byte{0x15}, max: []byte{0x2A}}, {no: 3, min: []byte{0x2A}, max: []byte{0xFF}}}
	const n = 60
	for i := range n {
		mustCreate(t, c, fmt.Sprint(i), fmt.Sprintf(`{"id":"%d","pk":"%d","n":%d}`, i, i, i%2))
	}
	ranges, err := c.ReadFeedRanges(ctx, nil)
	if err != nil || len(ranges) != 3 {
		t.Fatal(ranges, err)
	}
	total := 0
	for i := range ranges {
		got := len(changes(t, c, &azcosmos.ChangeFeedOptions{FeedRange: &ranges[i], MaxItemCount: 7}))
		if got == 0 || got == n {
			t.Errorf("range %d has %d items", i, got)
		}
		total += got
	}
	if total != n {
		t.Errorf("the ranges have %d items of %d", total, n)
	}
	cross := azcosmos.NewPartitionKey()
	if rows := queryAll(t, c, "SELECT VALUE c.id FROM c", cross, &azcosmos.QueryOptions{PageSizeHint: 7}); len(rows) != n {
		t.Errorf("scan: got %d rows, want %d", len(rows), n)
	}
	if rows := queryAll(t, c, "SELECT VALUE c.id FROM c WHERE c.n = 1", cross, &azcosmos.QueryOptions{PageSizeHint: 7}); len(rows) != n/2 {
		t.Errorf("range index: got %d rows, want %d", len(rows), n/2)
	}
	var ids []azcosmos.ItemIdentity
	for i := range n {
		ids = append(ids, azcosmos.ItemIdentity{ID: fmt.Sprint(i), PartitionKey: pk(fmt.Sprint(i))})
	}
	if res, err := c.ReadManyItems(ctx, ids, nil); err != nil || len(res.Items) != n {
		t.Errorf("read many: %d %v", len(res.Items), err)
	}
}

// TestPartitionKeyRangeID_ContainerPrefix: SDKs may put the container's resource id before the id
// of a physical partition.
func TestPartitionKeyRangeID_ContainerPrefix(t *testing.T) {
	const docs = "/dbs/db/colls/c/docs"
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"1","pk":"p"}`)
	rid := e.catalog.Load().databases["db"].containers["c"].rid
	for _, one := range []struct {
		id   string
		want int
	}{{"0", 200}, {rid + ",0", 200}, {rid + ",1", 410}, {"another,0", 410}, {",0", 410}} {
		of := []string{"x-ms-documentdb-partitionkeyrangeid", one.id}
		if res := do(t, e, "POST", docs, `{"query":"SELECT * FROM c"}`, append(of, "Content-Type", "application/query+json")...); res.StatusCode != one.want {
			t.Errorf("%q: query: got %s, want %d", one.id, res.Status, one.want)
		}
		if res := do(t, e, "GET", docs, "", append(of, "A-IM", "Incremental Feed")...); res.StatusCode != one.want {
			t.Errorf("%q: change feed: got %s, want %d", one.id, res.Status, one.want)
		}
		if res, _ := bulk(t, e, one.id, `[{"operationType":"Read","id":"1","partitionKey":"[\"p\"]"}]`); res.StatusCode != one.want {
			t.Errorf("%q: bulk: got %s, want %d", one.id, res.Status, one.want)
		}
	}
}
