//go:build linux

package daemon

import (
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/lockagent/lockagent/internal/waittest"
)

// reflecting returns a stream of the reflection of a daemon.
func reflecting(t *testing.T) (*grpc.ClientConn, func(*reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse) {
	t.Helper()
	d := run(t)
	conn, err := grpc.NewClient("unix:"+d.path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(waittest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return conn, func(req *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
		res, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(res.GetOriginalRequest(), req) {
			t.Errorf("the answer is to %v, not to %v", res.GetOriginalRequest(), req)
		}
		return res
	}
}

func symbol(name string) *reflectionv1.ServerReflectionRequest {
	return &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}}
}

// A client puts the whole API together from what it is told.
func TestReflectionDescribesTheAPI(t *testing.T) {
	_, ask := reflecting(t)
	all := new(descriptorpb.FileDescriptorSet)
	have := make(map[string]bool)
	for _, service := range ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().GetService() {
		told := ask(symbol(service.GetName())).GetFileDescriptorResponse().GetFileDescriptorProto()
		for i, text := range told {
			file := new(descriptorpb.FileDescriptorProto)
			if err := proto.Unmarshal(text, file); err != nil {
				t.Fatal(err)
			}
			if i > 0 && have[file.GetName()] {
				t.Errorf("%s is told again with %s", file.GetName(), service.GetName())
			}
			if !have[file.GetName()] {
				all.File = append(all.File, file)
				have[file.GetName()] = true
			}
		}
	}
	files, err := protodesc.NewFiles(all)
	if err != nil {
		t.Fatal(err)
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("lockagent.v1", func(file protoreflect.FileDescriptor) bool {
		got, err := files.FindFileByPath(file.Path())
		if err != nil {
			t.Errorf("%s: %v", file.Path(), err)
		} else if !proto.Equal(protodesc.ToFileDescriptorProto(got), protodesc.ToFileDescriptorProto(file)) {
			t.Errorf("%s is not as it is", file.Path())
		}
		return true
	})
	if _, err := files.FindDescriptorByName("grpc.health.v1.Health.Check"); err != nil {
		t.Error(err)
	}
}

func TestReflectionOfOneFile(t *testing.T) {
	_, ask := reflecting(t)
	byName := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileByFilename{FileByFilename: "google/protobuf/duration.proto"}}
	for range 2 { // who asks again is told again
		told := ask(byName).GetFileDescriptorResponse().GetFileDescriptorProto()
		file := new(descriptorpb.FileDescriptorProto)
		if len(told) != 1 || proto.Unmarshal(told[0], file) != nil || file.GetName() != "google/protobuf/duration.proto" {
			t.Errorf("%q", told)
		}
	}
}

// What is not there is said within the stream, which goes on.
func TestReflectionOfWhatIsNotThere(t *testing.T) {
	_, ask := reflecting(t)
	const options = "google.protobuf.FieldOptions"
	for name, req := range map[string]*reflectionv1.ServerReflectionRequest{
		"symbol": symbol("lockagent.v1.NoSuch"),
		"file":   {MessageRequest: &reflectionv1.ServerReflectionRequest_FileByFilename{FileByFilename: "no.proto"}},
		"extension": {MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingExtension{
			FileContainingExtension: &reflectionv1.ExtensionRequest{ContainingType: options, ExtensionNumber: 1},
		}},
		"extensions": {MessageRequest: &reflectionv1.ServerReflectionRequest_AllExtensionNumbersOfType{AllExtensionNumbersOfType: "no.Such"}},
	} {
		if e := ask(req).GetErrorResponse(); codes.Code(e.GetErrorCode()) != codes.NotFound || e.GetErrorMessage() == "" {
			t.Errorf("%s: %v", name, e)
		}
	}
	if e := ask(&reflectionv1.ServerReflectionRequest{}).GetErrorResponse(); codes.Code(e.GetErrorCode()) != codes.InvalidArgument {
		t.Errorf("nothing: %v", e)
	}
	all := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_AllExtensionNumbersOfType{AllExtensionNumbersOfType: "lockagent.v1.Deadline"}}
	if got := ask(all).GetAllExtensionNumbersResponse(); got.GetBaseTypeName() != "lockagent.v1.Deadline" || len(got.GetExtensionNumber()) != 0 {
		t.Errorf("%v", got)
	}
}

func TestReflectionForOlderClients(t *testing.T) {
	conn, _ := reflecting(t)
	// The older messages are the same on the wire.
	stream, err := conn.NewStream(waittest.Context(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
	if err != nil {
		t.Fatal(err)
	}
	res := new(reflectionv1.ServerReflectionResponse)
	if err := errors.Join(stream.SendMsg(symbol("lockagent.v1.LockService")), stream.RecvMsg(res)); err != nil || len(res.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("%v, %v", res, err)
	}
	_ = stream.CloseSend()
}
