package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// reflectionServices are the names of the standard service for reflection. The older version has the same messages by
// other names, and the names of messages are not on the wire.
var reflectionServices = []string{"grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}

// newReflection tells clients about the services and the messages of this program. It is not a library because that
// costs every verb 1 ms: the libraries parse descriptions of messages while the program starts.
func newReflection(services []string, options []connect.HandlerOption) map[string]http.Handler {
	handlers := make(map[string]http.Handler)
	for _, service := range reflectionServices {
		path := "/" + service + "/ServerReflectionInfo"
		handlers[path] = connect.NewBidiStreamHandler(path, func(_ context.Context, stream *reflectionStream) error {
			r := reflection{services: services, told: make(map[string]bool)}
			for {
				req, err := stream.Receive()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if err := stream.Send(r.answer(req)); err != nil {
					return err
				}
			}
		}, options...)
	}
	return handlers
}

type reflectionStream = connect.BidiStream[reflectionv1.ServerReflectionRequest, reflectionv1.ServerReflectionResponse]

// reflection answers the requests of one stream.
type reflection struct {
	services []string
	told     map[string]bool // the files that the client has got, by their paths
}

// answer never fails: an error is an answer as well, and the stream goes on.
func (r *reflection) answer(req *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
	res := &reflectionv1.ServerReflectionResponse{ValidHost: req.GetHost(), OriginalRequest: req}
	var err error
	switch what := req.GetMessageRequest().(type) {
	case *reflectionv1.ServerReflectionRequest_ListServices:
		list := new(reflectionv1.ListServiceResponse)
		for _, name := range r.services {
			list.Service = append(list.Service, &reflectionv1.ServiceResponse{Name: name})
		}
		res.MessageResponse = &reflectionv1.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: list}
	case *reflectionv1.ServerReflectionRequest_FileByFilename:
		var file protoreflect.FileDescriptor
		if file, err = protoregistry.GlobalFiles.FindFileByPath(what.FileByFilename); err == nil {
			err = r.tell(file, res)
		}
	case *reflectionv1.ServerReflectionRequest_FileContainingSymbol:
		var found protoreflect.Descriptor
		if found, err = protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(what.FileContainingSymbol)); err == nil {
			err = r.tell(found.ParentFile(), res)
		}
	case *reflectionv1.ServerReflectionRequest_FileContainingExtension:
		var found protoreflect.ExtensionType
		asked := what.FileContainingExtension
		if found, err = protoregistry.GlobalTypes.FindExtensionByNumber(protoreflect.FullName(asked.GetContainingType()), protoreflect.FieldNumber(asked.GetExtensionNumber())); err == nil {
			err = r.tell(found.TypeDescriptor().ParentFile(), res)
		}
	case *reflectionv1.ServerReflectionRequest_AllExtensionNumbersOfType:
		if _, err = protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(what.AllExtensionNumbersOfType)); err == nil {
			res.MessageResponse = extensionsOf(what.AllExtensionNumbersOfType)
		}
	default:
		err = connect.NewError(connect.CodeInvalidArgument, errors.New("the request asks for nothing that is known here"))
	}
	if errors.Is(err, protoregistry.NotFound) {
		err = connect.NewError(connect.CodeNotFound, err)
	}
	if err != nil {
		res.MessageResponse = &reflectionv1.ServerReflectionResponse_ErrorResponse{
			ErrorResponse: &reflectionv1.ErrorResponse{ErrorCode: int32(connect.CodeOf(err)), ErrorMessage: err.Error()},
		}
	}
	return res
}

func extensionsOf(name string) *reflectionv1.ServerReflectionResponse_AllExtensionNumbersResponse {
	all := &reflectionv1.ExtensionNumberResponse{BaseTypeName: name}
	protoregistry.GlobalTypes.RangeExtensionsByMessage(protoreflect.FullName(name), func(x protoreflect.ExtensionType) bool {
		all.ExtensionNumber = append(all.ExtensionNumber, int32(x.TypeDescriptor().Number()))
		return true
	})
	return &reflectionv1.ServerReflectionResponse_AllExtensionNumbersResponse{AllExtensionNumbersResponse: all}
}

// tell answers with a file and all that it imports. The file comes first. Imported files that the client has got are
// left out.
func (r *reflection) tell(file protoreflect.FileDescriptor, res *reflectionv1.ServerReflectionResponse) error {
	files := []protoreflect.FileDescriptor{file}
	r.told[file.Path()] = true
	told := new(reflectionv1.FileDescriptorResponse)
	for len(files) > 0 {
		text, err := source(files[0])
		if err != nil {
			return err
		}
		told.FileDescriptorProto = append(told.FileDescriptorProto, text)
		for i := range files[0].Imports().Len() {
			if imported := files[0].Imports().Get(i); !r.told[imported.Path()] {
				r.told[imported.Path()] = true
				files = append(files, imported.FileDescriptor)
			}
		}
		files = files[1:]
	}
	res.MessageResponse = &reflectionv1.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: told}
	return nil
}

// source is the encoded description from which the code of a file was generated. Every type of the file has it.
func source(file protoreflect.FileDescriptor) ([]byte, error) {
	var packed []byte
	switch {
	case file.Messages().Len() > 0:
		message, err := protoregistry.GlobalTypes.FindMessageByName(file.Messages().Get(0).FullName())
		if err != nil {
			return nil, err
		}
		if generated, ok := message.Zero().Interface().(interface{ Descriptor() ([]byte, []int) }); ok {
			packed, _ = generated.Descriptor()
		}
	case file.Enums().Len() > 0:
		enum, err := protoregistry.GlobalTypes.FindEnumByName(file.Enums().Get(0).FullName())
		if err != nil {
			return nil, err
		}
		if generated, ok := enum.New(0).(interface{ EnumDescriptor() ([]byte, []int) }); ok {
			packed, _ = generated.EnumDescriptor()
		}
	}
	if packed == nil {
		return nil, fmt.Errorf("%w: the description of %s", protoregistry.NotFound, file.Path())
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unpacked)
}
