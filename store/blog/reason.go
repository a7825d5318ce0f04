package blog

// Reason says why, where errors of one Code have several causes that a client may want to tell apart. The set is
// closed, and documented as ErrorReason in the schema.
type Reason string

// The reasons of Invalid.
const (
	ReasonBlank      Reason = "BLANK"
	ReasonTooShort   Reason = "TOO_SHORT"
	ReasonTooLong    Reason = "TOO_LONG"
	ReasonTooMany    Reason = "TOO_MANY"
	ReasonTooComplex Reason = "TOO_COMPLEX"
	ReasonCharacter  Reason = "CHARACTER"
	ReasonFormat     Reason = "FORMAT"
	ReasonRange      Reason = "RANGE"
	ReasonType       Reason = "TYPE"
	ReasonReserved   Reason = "RESERVED"
	ReasonMismatch   Reason = "MISMATCH"
	ReasonRequest    Reason = "REQUEST"
)

// The reasons of requests without a valid token, and of Forbidden.
const (
	ReasonNoToken      Reason = "NO_TOKEN"
	ReasonInvalidToken Reason = "INVALID_TOKEN"
	ReasonExpiredToken Reason = "EXPIRED_TOKEN"

	ReasonNoUser    Reason = "NO_USER"
	ReasonNotYours  Reason = "NOT_YOURS"
	ReasonOrigin    Reason = "ORIGIN"
	ReasonUntrusted Reason = "UNTRUSTED_DOCUMENT"
)

// The reasons of Conflict and LimitReached.
const (
	ReasonTaken        Reason = "TAKEN"
	ReasonOutdated     Reason = "OUTDATED"
	ReasonKeyUsed      Reason = "KEY_USED"
	ReasonHasUser      Reason = "HAS_USER"
	ReasonBeingDeleted Reason = "BEING_DELETED"
	ReasonConcurrent   Reason = "CONCURRENT"
	ReasonLater        Reason = "LATER_VERSION"

	ReasonLimit Reason = "LIMIT"
	ReasonFull  Reason = "FULL"
)
