// Package testenv gives tests the real thing: a redis-server and a nats-server on free ports, a TCP proxy that breaks
// connections on purpose, and the dqbridge binary as a process that can be killed. What a test starts ends with the
// test, and on Linux with the test binary, even one that is killed or times out. A missing redis-server fails the
// test: a skipped test would prove nothing.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// and its tests share one Redis (SharedRedis), each under a key prefix of its own (Prefix).
package testenv
