#!/bin/sh
# What a client of dqbridge does, with the NATS command line client (https://github.com/nats-io/natscli) and nothing else.
#
#   sh examples/shell/dq.sh push        store a job that is due in two seconds
#   sh examples/shell/dq.sh work [N]    take jobs and finish them, until Ctrl-C or after N of them
#   sh examples/shell/dq.sh nak         give a job back with a delay, finish it at its second attempt
#   sh examples/shell/dq.sh debounce    push one id three times: one delivery, of the last push
#   sh examples/shell/dq.sh pull        ask for one job, at this program's own pace
#
# The nats command takes NATS_URL from the environment; without it, nats://127.0.0.1:4222.
# --no-templates: else the nats command would fill in what stands between double braces in a body.
set -eu

# ask SUBJECT PAYLOAD sends a request and prints the answer; an answer without code 200 is an error.
ask() {
	answer=$(nats req --raw --no-templates --timeout 10s "$1" "$2")
	printf '%s\n' "$answer"
	case $answer in '{"code":200,'*) ;; *) return 1 ;; esac
}

# worker SUBJECT N runs this script as "job" for each delivery and sends what it prints to the delivery's reply subject.
# All who say the same --queue share the jobs; without a group each would get every job.
worker() {
	nats reply "$1" --queue workers ${2:+--count "$2"} --command "sh '$0' job" ||
		[ -n "$2" ] # the nats command (0.5.1) ends with code 1 when it has reached its count
}

case ${1:-help} in
push)
	ask dq.push '{"topic":"example","delay":2,"body":{"to":"ann@example.org"}}'
	;;
work)
	worker dq.ready.example "${2:-}"
	;;
job)
	# One delivery, in NATS_REQUEST_BODY; the work goes here. All output, standard error too, is the answer: +ACK finishes
	# the job, -NAK gives it back (the delay is in nanoseconds), +TERM makes it dead. No line end behind it.
	case $NATS_REQUEST_SUBJECT in
	*.nak.*)
		case $NATS_REQUEST_BODY in
		*'"attempt":1,'*) printf '%s' '-NAK {"delay": 1000000000}' ;;
		*) printf '+ACK' ;;
		esac
		;;
	*) printf '+ACK' ;;
	esac
	;;
nak)
	ask dq.push '{"topic":"example.nak.shell"}' # due now, and kept until somebody listens
	worker dq.ready.example.nak.shell 2
	;;
debounce)
	for n in 1 2 3; do
		ask dq.push '{"topic":"example.debounce.shell","id":"debounce-shell","delay":"2s","on_duplicate":"replace","body":'$n'}'
	done
	worker dq.ready.example.debounce.shell 1
	;;
pull)
	ask dq.push '{"topic":"example.pull.shell","delay":"500ms"}'
	# The time-out is 2 s longer than the wait: a caller that gave up loses the delivery.
	job=$(nats req --raw --no-templates --timeout 7s dq.pop.example.pull.shell '{"wait":"5s"}')
	printf '%s\n' "$job"
	# --raw shows the payload without its headers, so there is no ack subject: finish by the delivered job itself,
	# which has the id.
	ask dq.finish "$job"
	;;
*)
	echo "usage: $0 push | work [N] | nak | debounce | pull" >&2
	exit 2
	;;
esac
