package delay

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1; nothing is protected by it.
	_ "embed"
	"encoding/hex"
	"strings"
)

// script is one Lua script and the name that Redis gives it.
type script struct {
	name, source, sha string
}

func newScript(name string, parts ...string) *script {
	source := strings.Join(parts, "")
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return &script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

//go:embed scripts/prelude.lua
var preludeSource string

//go:embed scripts/clock.lua
var clockSource string

//go:embed scripts/tries.lua
var triesSource string

//go:embed scripts/lists.lua
var listsSource string

//go:embed scripts/records.lua
var recordsSource string

//go:embed scripts/flight.lua
var flightSource string

//go:embed scripts/lease.lua
var leaseSource string

//go:embed scripts/back.lua
var backSource string

//go:embed scripts/plain.lua
var plainSource string

//go:embed scripts/push.lua
var pushSource string

//go:embed scripts/promote.lua
var promoteSource string

//go:embed scripts/reserve.lua
var reserveSource string

//go:embed scripts/confirm.lua
var confirmSource string

//go:embed scripts/return.lua
var returnSource string

//go:embed scripts/undo.lua
var undoSource string

//go:embed scripts/forget.lua
var forgetSource string

//go:embed scripts/finish.lua
var finishSource string

//go:embed scripts/release.lua
var releaseSource string

//go:embed scripts/touch.lua
var touchSource string

//go:embed scripts/bury.lua
var burySource string

//go:embed scripts/kick.lua
var kickSource string

//go:embed scripts/reschedule.lua
var rescheduleSource string

//go:embed scripts/get.lua
var getSource string

//go:embed scripts/page.lua
var pageSource string

//go:embed scripts/listed.lua
var listedSource string

//go:embed scripts/purge.lua
var purgeSource string

//go:embed scripts/oldest.lua
var oldestSource string

//go:embed scripts/empty.lua
var emptySource string

//go:embed scripts/retain.lua
var retainSource string

//go:embed scripts/expire.lua
var expireSource string

//go:embed scripts/compact.lua
var compactSource string

//go:embed scripts/mend.lua
var mendSource string

//go:embed scripts/adjust.lua
var adjustSource string

//go:embed scripts/counts.lua
var countsSource string

//go:embed scripts/open.lua
var openSource string

//go:embed scripts/beat.lua
var beatSource string

// What scripts begin with, each time more: a function costs each call half a µs, so those that run for each job take no
// more than they need.
var (
	withClock   = preludeSource + clockSource
	withTries   = withClock + triesSource
	withLists   = withTries + listsSource
	withRecords = withLists + recordsSource
)

var (
	pushScript       = newScript("push", plainSource, withLists, pushSource)
	promoteScript    = newScript("promote", withRecords, leaseSource, promoteSource)
	reserveScript    = newScript("reserve", withRecords, leaseSource, reserveSource)
	confirmScript    = newScript("confirm", withTries, confirmSource)
	returnScript     = newScript("return", withRecords, backSource, returnSource)
	undoScript       = newScript("undo", withRecords, backSource, undoSource)
	finishScript     = newScript("finish", preludeSource, finishSource)
	releaseScript    = newScript("release", withRecords, flightSource, releaseSource)
	touchScript      = newScript("touch", withRecords, flightSource, touchSource)
	buryScript       = newScript("bury", withRecords, flightSource, burySource)
	kickScript       = newScript("kick", withRecords, kickSource)
	rescheduleScript = newScript("reschedule", withRecords, rescheduleSource)
	getScript        = newScript("get", withRecords, getSource)
	pageScript       = newScript("page", withRecords, pageSource)
	listedScript     = newScript("listed", withRecords, listedSource)
	purgeScript      = newScript("purge", withRecords, purgeSource)
	emptyScript      = newScript("empty", withRecords, emptySource)
	retainScript     = newScript("retain", withRecords, retainSource)
	expireScript     = newScript("expire", withRecords, expireSource)
	mendScript       = newScript("mend", withRecords, mendSource)
	adjustScript     = newScript("adjust", withRecords, adjustSource)
	compactScript    = newScript("compact", withRecords, compactSource)
	oldestScript     = newScript("oldest", withRecords, oldestSource)
	countsScript     = newScript("counts", countsSource)
	forgetScript     = newScript("forget", forgetSource)
	openScript       = newScript("open", openSource)
	beatScript       = newScript("beat", beatSource)
)
