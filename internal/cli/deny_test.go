package cli

import "github.com/nats-io/nats-server/v2/server"

// denySubscribe lets nobody listen to events.
func denySubscribe(o *server.Options) {
	o.Users = []*server.User{{
		Username: "u", Password: "p",
		Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"dq.event.>"}}},
	}}
	o.NoAuthUser = "u"
}
