package projection

import (
	"encoding/json"
	"errors"
	"net/http"

	"byline/internal/itemjson"
	"byline/store/cosmos"
)

// skip logs and counts an item that cannot be projected, and returns its id.
func (b *base) skip(container string, raw []byte, err error) string {
	var item struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(raw, &item) // every item has an id
	b.skipID(container, item.ID, err)
	return item.ID
}

// skipID is skip, given the id of the item.
func (b *base) skipID(container, id string, err error) {
	b.metrics.skipped.Inc()
	b.o.Logger.Error("item skipped", logContainer, container, logItem, id, logError, err)
}

// refused reports whether Cosmos DB permanently refuses a write: for example, the revision is not a number,
// or the logical partition is full; or whether the item is of a later version and must not be replaced.
func refused(err error) bool {
	return err != nil && (errors.Is(err, itemjson.ErrLater) || cosmos.ErrorOf(err).PartitionFull() ||
		cosmos.HasStatus(err, http.StatusBadRequest, http.StatusRequestEntityTooLarge))
}

// skipRefused skips an item that Cosmos DB refuses to change, and returns other errors.
func (b *base) skipRefused(c *cosmos.Container, id string, err error) error {
	if !refused(err) {
		return err
	}
	b.skipID(c.Name(), id, err)
	return nil
}
