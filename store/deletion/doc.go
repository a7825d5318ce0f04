// Package deletion knows the users that are being deleted, so that reads hide what they wrote.
//
// The deletion of a user begins when the user item becomes a tombstone without TTL. The projections then delete
// everything the user wrote, and the item last. In the meantime reads hide all of it: every instance learns of the
// users being deleted from its own mutations, the session tokens, a tail of the users container and, at the start, the
// list of jobs.
package deletion
