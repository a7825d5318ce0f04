// Package username keeps the rule that a username belongs to one user, ignoring case.
//
// A username is unique because an item of its own reserves it (Reservation), and a user
// has a name only while owning its reservation. User and reservation are in different
// partitions, so creating and renaming take several steps: reserve the new name, mark the old
// reservation as leaving, change the user, release the old name.
// The reservation of a released name stays for 30 days, by a TTL: until then only its former owner can take
// the name again, and lookups by it find that user. A reservation gets a TTL only after its owner was seen
// with another name.
//
// A crash between the steps leaves a reservation whose owner does not have the name. The owner may resume at any time.
// After Grace, Names.Sweep releases it if it is marked as leaving, and deletes it otherwise; then another user may take
// the name. The projections call it with the reservations in the change feed.
//
// ETags separate concurrent writers: reserving a name again changes the ETag, and a name is released or deleted only at
// the ETag that the reservation had before its owner was seen with another name.
//
// The age of a reservation counts from its _ts. A process that pauses for longer than the grace period may
// still change its user after another user has taken the name. So each side writes first and then reads
// what the other writes: after changing a user, a process reads the reservation, and reverts to the old
// name if it is lost; after taking an abandoned reservation, it reads the former owner, and returns the
// reservation if they have the name. Both read from the primary replica, since others may be behind. So
// the two never both keep the name.
package username
