package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// healthService is the standard service for health. "" is the health of the process, and "lockagent.v1.LockService"
// says whether locks can be granted now.
const healthService = "grpc.health.v1.Health"

// healthEvery is how often the health is looked at for those who watch it.
const healthEvery = time.Second

type health struct{ ready func(context.Context) error }

func newHealth(ready func(context.Context) error, options []connect.HandlerOption) map[string]http.Handler {
	h := &health{ready}
	check, watch := "/"+healthService+"/Check", "/"+healthService+"/Watch"
	return map[string]http.Handler{
		check: connect.NewUnaryHandlerSimple(check, h.check, options...),
		watch: connect.NewServerStreamHandlerSimple(watch, h.watch, options...),
	}
}

// status reports false if there is no such service.
func (h *health) status(ctx context.Context, service string) (healthv1.HealthCheckResponse_ServingStatus, bool) {
	switch {
	case service == lockagentv1connect.LockServiceName && h.ready(ctx) != nil:
		return healthv1.HealthCheckResponse_NOT_SERVING, true
	case service == "" || slices.Contains(services(), service):
		return healthv1.HealthCheckResponse_SERVING, true
	}
	return healthv1.HealthCheckResponse_SERVICE_UNKNOWN, false
}

func (h *health) check(ctx context.Context, req *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	status, known := h.status(ctx, req.GetService())
	if !known {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no service %.64q", req.GetService()))
	}
	return &healthv1.HealthCheckResponse{Status: status}, nil
}

func (h *health) watch(
	ctx context.Context, req *healthv1.HealthCheckRequest, out *connect.ServerStream[healthv1.HealthCheckResponse],
) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	last := healthv1.HealthCheckResponse_ServingStatus(-1)
	for {
		if status, _ := h.status(ctx, req.GetService()); status != last {
			last = status
			if err := out.Send(&healthv1.HealthCheckResponse{Status: status}); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return connect.NewError(connect.CodeCanceled, context.Cause(ctx))
		}
	}
}
