package partitionkey

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"byline/store/emulator/internal/sql"
)

// TestEffectivePartitionKey compares the hash with the test vectors of the SDK. They are not
// masked; a V2 key's two topmost bits are cleared for routing.
func TestEffectivePartitionKey(t *testing.T) {
	text := func(s string) Component { return Component{kind: componentString, text: s} }
	number := func(f float64) Component { return Component{kind: componentNumber, number: f} }
	for _, v := range []struct {
		name   string
		key    Key
		v1, v2 string
	}{
		{"undefined", Key{{}}, "000000000000000000000000514E28B7", "51622DAA78F835834610ABE56EFF5CB5"},
		{"null", Key{{kind: componentNull}}, "000000000000000000000000E45AD1AB", "778867E4430E67857ACE5C908374FE16"},
		{"true", Key{{kind: componentTrue}}, "0000000000000000000000005E2A8076", "4E711127C5B5A8E4726AC6DD306A3E59"},
		{"false", Key{{kind: componentFalse}}, "0000000000000000000000006C27D09F", "EFE1BE91E90A3439635E0E9E37361EF2"},
		{"zero", Key{number(0)}, "0000000000000000000000001EDA80A6", "555B95BEDAC4B1E9EC1CDC9BB0DDDE58"},
		{"negative zero", Key{number(math.Copysign(0, -1))}, "000000000000000000000000B03DA650",
			"3D018BB1DF3DB27235766E81FD10406E"},
		{"one", Key{number(1)}, "000000000000000000000000E1655A93", "A0CD98B339BA78A5D0CF6953B87070B0"},
		{"smallest", Key{number(5e-324)}, "000000000000000000000000AC83D318", "0E6CBA63A280927DE485DEF865800139"},
		{"empty string", Key{text("")}, "0000000000000000000000003CCCB0FF", "B2E9366E637A71B4E710384B2F4970A0"},
		{"string", Key{text("asdf")}, "000000000000000000000000B02BABC2", "608BF1D598F5B63AD5520F04FE58C5E8"},
		{"101 bytes", Key{text(strings.Repeat("a", 101))}, "0000000000000000000000003B1B5D8D",
			"88042541D30C8BF90D7092B1519AE0BC"},
		{"three components", Key{text("/path1"), text("/path2"), text("/path3")},
			"000000000000000000000000A6C6298A0000000000000000000000009D008F2C0000000000000000000000003E47FEA2",
			"B499FD5198AE0F1EB6B77F6E428D2FF0E7A1848BD1102A3B65AFF266874D0FF5ECA5ABC953544CF9BD94776DA5E6EA52"},
	} {
		t.Run(v.name, func(t *testing.T) {
			d := Paths{Version: 2, Multi: true}
			want, err := hex.DecodeString(v.v2)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(want); i += 16 {
				want[i] &= 0x3F
			}
			if got := d.AppendEPK(nil, v.key); !bytes.Equal(got, want) {
				t.Errorf("V2 %X, want %X", got, want)
			}
			if len(v.key) == 1 {
				d.Multi = false
				if got := d.AppendEPK(nil, v.key); !bytes.Equal(got, want) {
					t.Errorf("V2 %X, want %X", got, want)
				}
			}
			d.Version = 1
			if got := FormatEPK(d.AppendEPK(nil, v.key)); got != v.v1 {
				t.Errorf("V1 %s, want %s", got, v.v1)
			}
		})
	}
}

func genComponent() *rapid.Generator[Component] {
	return rapid.OneOf(
		rapid.SampledFrom([]Component{{}, {kind: componentNull}, {kind: componentTrue}, {kind: componentFalse}}),
		rapid.Map(rapid.Float64(), func(f float64) Component { return Component{kind: componentNumber, number: f} }),
		rapid.Map(rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune{0, 1, 0xFF, 'a'}))),
			func(s string) Component {
				return Component{kind: componentString, text: s}
			}),
	)
}

// TestPartitionKeyEncoding: no key is a prefix of another with the same number of components, and
// every key can be delimited.
func TestPartitionKeyEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "components")
		a := Key(rapid.SliceOfN(genComponent(), n, n).Draw(t, "a"))
		b := Key(rapid.SliceOfN(genComponent(), n, n).Draw(t, "b"))
		ka, kb := a.AppendKey(nil), b.AppendKey(nil)
		if same := bytes.Equal(ka, kb); !same && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
			t.Fatalf("%v and %v: %q, %q", a, b, ka, kb)
		}
		id := rapid.String().Draw(t, "id")
		if got := KeyLength(append(bytes.Clone(ka), id...), n); got != len(ka) {
			t.Fatalf("%v: length %d, want %d", a, got, len(ka))
		}
	})
}

// TestPartitionKeyHeader: the header that the SDK sends for a value equals the key of that value in a
// document.
func TestPartitionKeyHeader(t *testing.T) {
	d := Paths{Paths: []sql.Path{{"pk"}}, Version: 2}
	for header, doc := range map[string]string{
		`["a"]`: `{"pk":"a"}`, `["\u00e4\u20ac"]`: `{"pk":"ä€"}`, `[1]`: `{"pk":1.0}`, `[1e2]`: `{"pk":100}`,
		`[null]`: `{"pk":null}`, `[true]`: `{"pk":true}`, `[{}]`: `{"x":1}`, `[""]`: `{"pk":""}`,
	} {
		key, err := parsePartitionKey(header)
		if err != nil {
			t.Errorf("%s: %v", header, err)
			continue
		}
		if of, err := d.Of([]byte(doc)); err != nil || !of.Equal(key) {
			t.Errorf("%s is not the key of %s: %v %v", header, doc, of, err)
		}
	}
	for _, header := range []string{``, `a`, `{}`, `null`, `["a"`, `[[1]]`, `[{"a":1}]`, `["\U0001f600"]`} {
		if key, err := parsePartitionKey(header); err == nil {
			t.Errorf("%s is accepted as %v", header, key)
		}
	}
}

// FuzzPartitionKeyHeader: a header is refused, or is a key whose encoding delimits itself.
func FuzzPartitionKeyHeader(f *testing.F) {
	for _, s := range []string{`["a"]`, `[1,null,true,{}]`, `["\u0000"]`, `[-0.0]`, `[1e999]`, `[[]]`, `null`,
		`["\U0001f600"]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		key, err := parsePartitionKey(header)
		if err != nil {
			return
		}
		b := key.AppendKey(nil)
		if got := KeyLength(append(b[:len(b):len(b)], "id"...), len(key)); got != len(b) {
			t.Errorf("%q: length %d of %d", header, got, len(b))
		}
	})
}

// TestEffectivePartitionKey_SDKVectors reads the test vectors in the module of azcosmos.
func TestEffectivePartitionKey_SDKVectors(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos").Output()
	if err != nil {
		t.Fatal("find the module of azcosmos:", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "internal/epk/testdata/*.xml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no vectors", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var in struct {
			Results []struct {
				Description string `xml:"Input>Description"`
				Value       string `xml:"Input>PartitionKeyValue"`
				V1          string `xml:"Output>PartitionKeyHashV1"`
				V2          string `xml:"Output>PartitionKeyHashV2"`
			} `xml:"Result"`
		}
		if err := xml.Unmarshal(raw, &in); err != nil || len(in.Results) == 0 {
			t.Fatal(file, err)
		}
		for _, v := range in.Results {
			t.Run(v.Description, func(t *testing.T) {
				values := []json.RawMessage{json.RawMessage(v.Value)}
				if strings.HasPrefix(v.Value, "[") {
					if err := json.Unmarshal([]byte(v.Value), &values); err != nil {
						t.Fatal(err)
					}
				}
				var key Key
				for _, one := range values {
					if string(one) == "UNDEFINED" {
						key = append(key, Component{})
						continue
					}
					// Numbers that JSON cannot express.
					if f, ok := map[string]float64{"-0": math.Copysign(0, -1),
						`"NaN"`:      math.Float64frombits(0xFFF8 << 48),
						`"Infinity"`: math.Inf(1), `"-Infinity"`: math.Inf(-1)}[string(one)]; ok {
						key = append(key, Component{kind: componentNumber, number: f})
						continue
					}
					value, err := sql.ParseValue(one)
					if err != nil {
						t.Fatal(err)
					}
					c, ok := ComponentOf(value)
					if !ok {
						t.Fatal("not a key")
					}
					key = append(key, c)
				}
				d := Paths{Version: 2, Multi: true}
				got := FormatEPK(d.AppendEPK(nil, key))
				for i := 0; i < len(v.V2); i += 32 { // the vectors are not masked
					if got[i+1:i+32] != v.V2[i+1:i+32] {
						t.Errorf("V2 %s, want %s", got, v.V2)
					}
				}
				d = Paths{Version: 1}
				if got := FormatEPK(d.AppendEPK(nil, key)); got != v.V1 {
					t.Errorf("V1 %s, want %s", got, v.V1)
				}
			})
		}
	}
}
