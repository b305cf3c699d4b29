// Package tracing tells of the way of jobs by the OpenTelemetry SDK, over OTLP on HTTP. It is set up by the standard
// OTEL_ variables, and off unless one of them names an endpoint.
package tracing

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-logr/logr/funcr"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// Options are for New.
type Options struct {
	Version string
	// Getenv reads the variables that say whether traces are wanted; what else they say is the SDK's to read.
	Getenv func(name string) string
	Log    zerolog.Logger
	// Loud bounds how often it is logged that traces cannot be sent.
	Loud *rate.Limiter
}

// Tracer makes the spans of a bridge.
type Tracer struct {
	ctx      context.Context //nolint:containedctx // spans begin in handlers, which have none
	tracer   trace.Tracer
	provider *sdk.TracerProvider
}

// wanted reports whether the environment asks for traces.
func wanted(getenv func(string) string) bool {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// New gives a tracer, or nil where the environment asks for none. The SDK's own errors go to the log from then on.
func New(ctx context.Context, o Options) (*Tracer, error) {
	if !wanted(o.Getenv) {
		return nil, nil
	}
	o.heed()
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if protocol := o.Getenv(name); protocol != "" && protocol != "http/protobuf" {
			o.Log.Warn().Str("variable", name).Str("value", protocol).Msg("traces are sent as http/protobuf, and only so")
		}
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("make trace exporter: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "dqbridge"), attribute.String("service.version", o.Version)),
		resource.WithFromEnv()) // it has the last word
	if err != nil {
		return nil, fmt.Errorf("describe the traced service: %w", err)
	}
	// The sampler and the batches are as OTEL_TRACES_SAMPLER and OTEL_BSP_… say.
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return &Tracer{
		ctx: context.WithoutCancel(ctx), provider: provider,
		tracer: provider.Tracer("github.com/dqbridge/dqbridge", trace.WithInstrumentationVersion(o.Version)),
	}, nil
}

// heed takes the errors of the SDK, which knows no other place for them than one for the whole process.
func (o Options) heed() {
	tell := func(text string) {
		if o.Loud.Allow() {
			o.Log.Warn().Str("error", text).Msg("traces are lost")
		}
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { tell(err.Error()) }))
	otel.SetLogger(funcr.New(func(_, args string) { tell(args) }, funcr.Options{}))
}

// Stop sends what has not been sent yet, until ctx is over, and ends.
func (t *Tracer) Stop(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}
