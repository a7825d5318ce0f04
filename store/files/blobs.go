package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"byline/store/blog"
)

const (
	// storageScope is the scope of tokens for Blob Storage.
	storageScope = "https://storage.azure.com/.default"

	// keyTime is how long a user delegation key is valid; it is replaced keyMargin before it expires.
	keyTime   = 6 * time.Hour
	keyMargin = time.Hour

	// clockSkew is how far this process's clock may be ahead of Azure's.
	clockSkew = 5 * time.Minute
)

// retry limits how long an operation takes while Blob Storage is unavailable.
var retry = policy.RetryOptions{MaxRetries: 2, TryTimeout: 10 * time.Second, RetryDelay: 200 * time.Millisecond,
	MaxRetryDelay: 2 * time.Second}

// blobs is a storage in Blob Storage: each place is a container.
type blobs struct {
	service    *service.Client
	containers map[place]*container.Client
	credential azcore.TokenCredential
	clock      func() time.Time

	mu      sync.Mutex                        // held while a key is requested
	key     *service.UserDelegationCredential // guarded by mu; nil before the first request
	renewAt time.Time                         // guarded by mu
}

// NewBlobs returns Files in the containers uploads and files of an Azure storage account, at an endpoint such as
// https://ACCOUNT.blob.core.windows.net. The identity of the credential needs the roles Storage Blob Data Contributor
// and Storage Blob Delegator. It makes no request; the containers must exist, with uploads private and files public.
func NewBlobs(endpoint string, credential azcore.TokenCredential, o Options) (*Files, error) {
	o = o.withDefaults()
	endpoint = strings.TrimSuffix(endpoint, "/")
	if o.URL == "" {
		o.URL = endpoint + "/" + string(public)
	}
	o.URL = strings.TrimSuffix(o.URL, "/")
	client, err := service.NewClient(endpoint, credential, &service.ClientOptions{
		ClientOptions: azcore.ClientOptions{Retry: retry, Transport: o.Transport}})
	if err != nil {
		return nil, fmt.Errorf("blob storage: %w", err)
	}
	b := &blobs{service: client, credential: credential, clock: o.Clock, containers: map[place]*container.Client{}}
	for _, p := range []place{uploads, public} {
		b.containers[p] = client.NewContainerClient(string(p))
	}
	return newFiles(b, o)
}

func (b *blobs) blob(p place, id blog.FileID) *blob.Client {
	return b.containers[p].NewBlobClient(string(id))
}

// sign returns the address of an upload with a user delegation SAS that can create this blob, and nothing else.
func (b *blobs) sign(ctx context.Context, id blog.FileID, expires time.Time) (string, []Header, error) {
	key, err := b.delegationKey(ctx)
	if err != nil {
		return "", nil, err
	}
	query, err := sas.BlobSignatureValues{Protocol: sas.ProtocolHTTPS, ExpiryTime: expires.UTC(),
		Permissions: (&sas.BlobPermissions{Create: true}).String(), ContainerName: string(uploads),
		BlobName: string(id)}.SignWithUserDelegation(key)
	if err != nil {
		return "", nil, err
	}
	return b.blob(uploads, id).URL() + "?" + query.Encode(), []Header{{"Content-Type", id.Type()},
		{"If-None-Match", "*"}, {"x-ms-blob-cache-control", cacheControl}, {"x-ms-blob-type", "BlockBlob"}}, nil
}

// delegationKey returns a key that is valid for at least keyMargin.
func (b *blobs) delegationKey(ctx context.Context) (*service.UserDelegationCredential, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock().UTC()
	if b.key != nil && now.Before(b.renewAt) {
		return b.key, nil
	}
	key, err := b.service.GetUserDelegationCredential(ctx, service.KeyInfo{
		Start:  to.Ptr(now.Add(-clockSkew).Format(sas.TimeFormat)),
		Expiry: to.Ptr(now.Add(keyTime).Format(sas.TimeFormat)),
	}, nil)
	if err != nil {
		return nil, blobError(err)
	}
	b.key, b.renewAt = key, now.Add(keyTime-keyMargin)
	return key, nil
}

func (b *blobs) inspect(ctx context.Context, id blog.FileID, inspect inspection) error {
	_, err := b.read(ctx, public, id, inspect)
	return err
}

// publish copies an upload within Blob Storage. The copy has the properties of the upload, which its client has set, so
// they are checked, too. The copy has the condition that the upload is the version that was checked.
func (b *blobs) publish(ctx context.Context, id blog.FileID, inspect inspection) error {
	v, err := b.read(ctx, uploads, id, inspect)
	if err != nil {
		return err
	}
	if v.properties != (properties{contentType: id.Type(), cacheControl: cacheControl}) {
		return blog.Invalidf("", "", blog.ReasonMismatch, "was uploaded with other headers than it should have")
	}
	token, err := b.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{storageScope}})
	if err != nil {
		return blobError(err)
	}
	_, err = b.blob(public, id).CopyFromURL(ctx, b.blob(uploads, id).URL(), &blob.CopyFromURLOptions{
		CopySourceAuthorization:        to.Ptr("Bearer " + token.Token),
		SourceModifiedAccessConditions: &blob.SourceModifiedAccessConditions{SourceIfMatch: &v.etag},
		BlobAccessConditions: &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}},
	})
	exists := bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.TargetConditionNotMet)
	if err != nil && !exists {
		return blobError(err)
	}
	_ = b.delete(ctx, uploads, id, time.Time{}) // else DeleteUploads does
	if exists {
		return errExists
	}
	return nil
}

// version is the version of a blob that was read.
type version struct {
	etag azcore.ETag
	size int64 // in bytes
	properties
}

// properties are what a client can set with an upload, and others would receive with the file.
type properties struct{ contentType, cacheControl, disposition, encoding, language string }

// read calls inspect with a blob, of which all reads see one version.
func (b *blobs) read(ctx context.Context, p place, id blog.FileID, inspect inspection) (v version, err error) {
	client := b.blob(p, id)
	first, v, err := download(ctx, client, head, "")
	if err != nil {
		return v, err
	}
	return v, inspect(v.size, func(n int64) ([]byte, error) {
		if n = min(n, v.size); n <= int64(len(first)) {
			return first[:n], nil
		}
		more, _, err := download(ctx, client, n, v.etag)
		return more, err
	})
}

// asStored asks for the bytes as they are: net/http would decompress those that a client has uploaded with
// Content-Encoding: gzip, and hide the header.
var asStored = http.Header{"Accept-Encoding": {"identity"}}

// download reads the first n bytes of a blob, and fails if it is not the version with an ETag, unless that is empty.
func download(ctx context.Context, client *blob.Client, n int64, etag azcore.ETag) (b []byte, v version, err error) {
	o := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Count: n}}
	if etag != "" {
		o.AccessConditions = &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &etag}}
	}
	r, err := client.DownloadStream(policy.WithHTTPHeader(ctx, asStored), o)
	if bloberror.HasCode(err, bloberror.InvalidRange) { // it has no bytes
		return nil, version{}, nil
	}
	if err != nil {
		return nil, version{}, blobError(err)
	}
	defer r.Body.Close()
	if b, err = io.ReadAll(io.LimitReader(r.Body, n)); err != nil {
		return nil, version{}, blobError(err)
	}
	_, size, _ := strings.Cut(value(r.ContentRange), "/")
	if v.size, err = strconv.ParseInt(size, 10, 64); err != nil || r.ETag == nil {
		return nil, version{}, fmt.Errorf("blob storage: no size or ETag in a response of range %q", value(r.ContentRange))
	}
	v.etag = *r.ETag
	v.properties = properties{value(r.ContentType), value(r.CacheControl), value(r.ContentDisposition),
		value(r.ContentEncoding), value(r.ContentLanguage)}
	return b, v, nil
}

// value returns the value of an optional header.
func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (b *blobs) list(ctx context.Context, p place, prefix string, after blog.FileID) (all []item, err error) {
	o := &container.ListBlobsFlatOptions{Prefix: &prefix}
	if after != "" {
		o.StartFrom = to.Ptr(string(after))
	}
	for pages := b.containers[p].NewListBlobsFlatPager(o); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, blobError(err)
		}
		for _, i := range page.Segment.BlobItems {
			id := blog.FileID(*i.Name)
			if id <= after || !id.Valid() {
				continue
			}
			date, size := i.Properties.LastModified, i.Properties.ContentLength
			if date == nil || size == nil {
				return nil, errors.New("blob storage: list without properties")
			}
			all = append(all, item{File{id, *date}, *size})
			if len(all) == pageSize {
				return all, nil
			}
		}
	}
	return all, nil
}

// touch writes the blob's empty metadata, which sets its date.
func (b *blobs) touch(ctx context.Context, id blog.FileID) error {
	_, err := b.blob(public, id).SetMetadata(ctx, nil, nil)
	return blobError(err)
}

func (b *blobs) delete(ctx context.Context, p place, id blog.FileID, since time.Time) error {
	o := &blob.DeleteOptions{}
	if !since.IsZero() {
		o.AccessConditions = &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfUnmodifiedSince: &since}}
	}
	_, err := b.blob(p, id).Delete(ctx, o)
	if bloberror.HasCode(err, bloberror.ConditionNotMet) {
		return errUsed
	}
	return blobError(err)
}

// blobError returns the error of a request as storage has them. No error contains the signature of an upload, since no
// request of this process has one.
func blobError(err error) error {
	var r *azcore.ResponseError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case !errors.As(err, &r): // no response, or no token
		return &unavailableError{err}
	case r.StatusCode == http.StatusNotFound && !bloberror.HasCode(err, bloberror.ContainerNotFound):
		return errMissing
	case r.StatusCode == http.StatusRequestTimeout, r.StatusCode == http.StatusTooManyRequests, r.StatusCode >= 500,
		bloberror.HasCode(err, bloberror.SourceConditionNotMet, bloberror.ConditionNotMet): // changed meanwhile
		return &unavailableError{err}
	}
	return err
}
