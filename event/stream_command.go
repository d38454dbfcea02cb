package event

// The kinds of the commands about plain streams.
const (
	KindCreateStream Kind = 20
	KindAppendStream Kind = 21
	KindDeleteStream Kind = 22
	KindTouchStream  Kind = 23
	KindExpireStream Kind = 24
)

// CreateStream makes a stream, or answers with the one of that name when it has the same
// configuration; *CreateStream is the Command. Result.Created tells which.
type CreateStream struct {
	Name StreamName
	// ContentType is the media type, lower case, without parameters. Empty: the source's for a fork,
	// application/octet-stream otherwise.
	ContentType string
	TTLSeconds  *int64
	ExpiresAt   *Time
	Closed      bool
	// Fork makes the stream a branch of another log; nil: an empty stream.
	Fork *Fork
	// Messages are what a new stream holds, after what a fork has of its source.
	Messages [][]byte
	// Key tells a repeated request, which gets the first one's answer, from another one that finds
	// the stream already there: [HashKey], or zero.
	Key IdempotencyKey
}

// AppendStream appends messages to a stream, closes it, or both in one step; *AppendStream is the
// Command.
type AppendStream struct {
	Name StreamName
	// ContentType must be the stream's; empty, with no messages: not compared.
	ContentType string
	Messages    [][]byte
	Close       bool
	// Seq is the request's Stream-Seq, which must grow byte by byte with each append; empty: none.
	Seq      string
	Producer *Producer
}

// DeleteStream deletes a stream. Its messages stay while forks read them, and its name with them.
type DeleteStream struct{ Name StreamName }

// TouchStream says that a stream with a TTL was read.
type TouchStream struct {
	Name       StreamName
	Generation Generation
}

// ExpireStream is the leader's verdict that a stream is past its TTL or its time. Apply checks it
// against the log's own clocks and refuses (StaleVerdict) when it does not hold.
type ExpireStream struct {
	Name       StreamName
	Generation Generation
}

// Kind returns the command's number.
func (*CreateStream) Kind() Kind { return KindCreateStream }

// Kind returns the command's number.
func (*AppendStream) Kind() Kind { return KindAppendStream }

// Kind returns the command's number.
func (DeleteStream) Kind() Kind { return KindDeleteStream }

// Kind returns the command's number.
func (TouchStream) Kind() Kind { return KindTouchStream }

// Kind returns the command's number.
func (ExpireStream) Kind() Kind { return KindExpireStream }
