package store

import (
	"context"
	"net/http"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// batch executes the operations that add puts into a transactional batch. Either
// all of them took effect and failed is -1, or none did: then failed is the index
// of the one that could not be applied, and status says why. It returns the items that
// were read or written, "" for those that were deleted. One that met another write of the
// same item is executed again, as WriteOnce does with single writes.
func batch(ctx context.Context, c *azcosmos.ContainerClient, partition string, add func(*operations)) (items [][]byte, failed, status int, err error) {
	var b operations
	add(&b)
	for pause := firstPause; ; pause *= 2 {
		r, x, err := b.execute(ctx, c, partition, &azcosmos.TransactionalBatchOptions{EnableContentResponseOnWrite: true})
		if err != nil {
			return nil, 0, 0, err
		}
		if failed, status = failure(r); status != retryWith || pause > lastPause {
			items, err = x.bodies(b.count)
			return items, failed, status, err
		}
		if !sleep(ctx, jittered(pause)) {
			return nil, 0, 0, ctx.Err()
		}
	}
}

// operations are those of a transactional batch, as "Transactional batch operations in Azure
// Cosmos DB" has them. The zero value is none.
type operations struct {
	json  []byte // without the last bracket
	count int
}

func (b *operations) create(item []byte) {
	b.begin("Create")
	b.json = append(append(slices.Grow(b.json, len(item)+64), `,"resourceBody":`...), item...)
	b.end()
}

func (b *operations) patch(id string, p patch) {
	b.begin("Patch")
	b.json = appendString(append(b.json, `,"id":`...), id)
	b.json = p.appendTo(append(b.json, `,"resourceBody":`...))
	b.end()
}

func (b *operations) read(id string) { b.on("Read", id) }

func (b *operations) delete(id string) { b.on("Delete", id) }

func (b *operations) on(what, id string) {
	b.begin(what)
	b.json = appendString(append(b.json, `,"id":`...), id)
	b.end()
}

func (b *operations) begin(what string) {
	if b.count == 0 {
		b.json = append(make([]byte, 0, 512), '[')
	} else {
		b.json = append(b.json, ',')
	}
	b.json = append(append(append(b.json, `{"operationType":"`...), what...), '"')
	b.count++
}

func (b *operations) end() { b.json = append(b.json, '}') }

// execute executes the operations. In their place azcosmos is given one that is of no
// consequence, since it does not execute none.
func (b *operations) execute(ctx context.Context, c *azcosmos.ContainerClient, partition string, o *azcosmos.TransactionalBatchOptions) (azcosmos.TransactionalBatchResponse, *exchange, error) {
	none := c.NewTransactionalBatch(key(partition))
	none.DeleteItem("", nil)
	within, x := sending(ctx, append(b.json, ']'))
	r, err := c.ExecuteTransactionalBatch(within, none, o)
	return r, x, x.passed(err)
}

// failure returns which operation of a batch could not be applied, and why; -1 if all
// of them took effect.
func failure(r azcosmos.TransactionalBatchResponse) (failed, status int) {
	if r.Success {
		return -1, http.StatusOK
	}
	for i, o := range r.OperationResults {
		if o.StatusCode >= 300 && o.StatusCode != http.StatusFailedDependency {
			return i, int(o.StatusCode)
		}
	}
	return 0, http.StatusInternalServerError // it does not say
}

// createCounted creates an item in a post's partition and counts it on the post,
// in one transactional batch. It returns the post as it is afterwards; exists
// says that the item is there already, and that nothing was changed.
func (s *Store) createCounted(ctx context.Context, op, postID, counter string, item []byte) (post *Post, exists bool, err error) {
	items, failed, status, err := batch(ctx, s.posts, postID, func(b *operations) {
		b.patch(postID, count(counter, 1))
		b.create(item)
	})
	switch {
	case err != nil:
		return nil, false, cosmosError(op, err)
	case failed == 0 && (status == http.StatusNotFound || status == http.StatusPreconditionFailed):
		return nil, false, noPost(op)
	case failed == 1 && status == http.StatusConflict:
		return nil, true, nil
	case failed >= 0:
		return nil, false, &Error{Code: codeOfStatus(status), Op: op}
	}
	post, err = decodePost(op, items[0])
	return post, false, err
}

// count is a patch of a post that exists: it moves a counter, and with it the
// revision.
func count(path string, by int64) patch {
	var p patch
	p.condition = "from c where c.type = '" + typePost + "' AND NOT IS_DEFINED(c.deleted)"
	p.increment(path, by)
	p.increment("/revision", 1)
	return p
}

// readPair reads a post and another item of its partition, both as of one moment.
func (s *Store) readPair(ctx context.Context, op, postID, id string) (post, other []byte, err error) {
	items, failed, status, err := batch(ctx, s.posts, postID, func(b *operations) {
		b.read(postID)
		b.read(id)
	})
	switch {
	case err != nil:
		return nil, nil, cosmosError(op, err)
	case failed == 0 && status == http.StatusNotFound:
		return nil, nil, noPost(op)
	case failed == 1 && status == http.StatusNotFound:
		return nil, nil, &Error{Code: Conflict, Op: op, Message: "another request is changing the same item; try again"}
	case failed >= 0:
		return nil, nil, &Error{Code: codeOfStatus(status), Op: op}
	}
	return items[0], items[1], nil
}
