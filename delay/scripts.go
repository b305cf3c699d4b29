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

//go:embed scripts/flight.lua
var flightSource string

//go:embed scripts/lease.lua
var leaseSource string

//go:embed scripts/back.lua
var backSource string

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

var (
	pushScript       = newScript("push", preludeSource, pushSource)
	promoteScript    = newScript("promote", preludeSource, leaseSource, promoteSource)
	reserveScript    = newScript("reserve", preludeSource, leaseSource, reserveSource)
	confirmScript    = newScript("confirm", preludeSource, confirmSource)
	returnScript     = newScript("return", preludeSource, backSource, returnSource)
	undoScript       = newScript("undo", preludeSource, backSource, undoSource)
	finishScript     = newScript("finish", preludeSource, finishSource)
	releaseScript    = newScript("release", preludeSource, flightSource, releaseSource)
	touchScript      = newScript("touch", preludeSource, flightSource, touchSource)
	buryScript       = newScript("bury", preludeSource, flightSource, burySource)
	kickScript       = newScript("kick", preludeSource, kickSource)
	rescheduleScript = newScript("reschedule", preludeSource, rescheduleSource)
	getScript        = newScript("get", preludeSource, getSource)
	pageScript       = newScript("page", preludeSource, pageSource)
	listedScript     = newScript("listed", preludeSource, listedSource)
	purgeScript      = newScript("purge", preludeSource, purgeSource)
	emptyScript      = newScript("empty", preludeSource, emptySource)
	retainScript     = newScript("retain", preludeSource, retainSource)
	expireScript     = newScript("expire", preludeSource, expireSource)
	mendScript       = newScript("mend", preludeSource, mendSource)
	adjustScript     = newScript("adjust", preludeSource, adjustSource)
	compactScript    = newScript("compact", preludeSource, compactSource)
	oldestScript     = newScript("oldest", preludeSource, oldestSource)
	countsScript     = newScript("counts", countsSource)
	forgetScript     = newScript("forget", forgetSource)
	openScript       = newScript("open", openSource)
	beatScript       = newScript("beat", beatSource)
)
