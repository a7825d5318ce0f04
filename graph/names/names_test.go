package names

import (
	"fmt"
	"testing"

	"byline/store/blog"
)

// BenchmarkShow shows the names of a page of a hundred items, by 1, 10 or 100 users.
func BenchmarkShow(b *testing.B) {
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = blog.UserID("bench", fmt.Sprint(i))
	}
	for _, users := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(users), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := New("", nil)
				for i := range ids {
					n.Show(blog.Byline{UserID: ids[i%users], Username: "ada"})
				}
				if n.Settle() {
					b.Fatal("changed")
				}
			}
		})
	}
}
