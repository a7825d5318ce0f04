// Package files stores pictures: covers of posts, pictures in their texts, and avatars.
//
// The bytes are in two places. A client sends them to the uploads, which are private, with the signed request that
// CreateUpload returns. When a post or user first uses an upload, Publish checks the bytes and moves them to the files,
// which are public and immutable. So everything public has been checked, and has the content type of its bytes; no
// client can write to the files.
//
// NewFolder keeps both in folders, and ServeHTTP is the server for them. NewBlobs keeps them in two containers of an
// Azure storage account, to which clients send uploads by a shared access signature.
//
// Files is safe for concurrent use. It starts nothing, and there is nothing to close. A folder has one Files at a time;
// containers may have any number, in any number of processes. Which files are in use is up to the caller.
package files
