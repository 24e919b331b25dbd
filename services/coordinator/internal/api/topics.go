package api

import (
	"context"
	"encoding/base64"
	"strconv"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	"github.com/seedqueue/sq/services/coordinator/internal/catalog"
)

// CreateTopic answers when the assignments are written.
func (s *Server) CreateTopic(ctx context.Context, in *controlv1.CreateTopicRequest) (*controlv1.Topic, error) {
	asked := in.GetTopic()
	if asked == nil {
		return nil, fault.Errorf(fault.Invalid, "topic is missing: give at least its name")
	}
	topic, err := readTopic(asked)
	if err != nil {
		return nil, err
	}
	if ns := in.GetNamespace(); ns != "" {
		if topic.Namespace != "" && topic.Namespace != ns {
			return nil, fault.Errorf(fault.Invalid, "namespace: the request says %q and its topic %q", ns, topic.Namespace)
		}
		topic.Namespace = ns
	}
	created, err := s.catalog.CreateTopic(ctx, catalog.CreateTopic{Topic: topic, RequestID: in.GetRequestId(), ValidateOnly: in.GetValidateOnly()})
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	v, err := s.catalog.View()
	if err != nil {
		return writeTopic(created, nil), nil //nolint:nilerr // the topic is made; only its partitions cannot be shown.
	}
	return writeTopic(created, v), nil
}

// GetTopic describes a topic.
func (s *Server) GetTopic(ctx context.Context, in *controlv1.GetTopicRequest) (*controlv1.Topic, error) {
	topic, v, err := s.catalog.Topic(ctx, nameOf(in.GetNamespace(), in.GetTopic()))
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	return writeTopic(topic, v), nil
}

// ListTopics lists the topics of a namespace by name.
func (s *Server) ListTopics(ctx context.Context, in *controlv1.ListTopicsRequest) (*controlv1.ListTopicsResponse, error) {
	limit, after, err := page(in.GetPageSize(), in.GetPageToken())
	if err != nil {
		return nil, err
	}
	topics, more, err := s.catalog.Topics(ctx, nameOf(in.GetNamespace(), "").Namespace, after, limit)
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	out := &controlv1.ListTopicsResponse{}
	for _, topic := range topics {
		out.Topics = append(out.Topics, writeTopic(topic, nil))
	}
	if more {
		out.NextPageToken = pageToken(topics[len(topics)-1].Value.Name)
	}
	return out, nil
}

// UpdateTopic changes what the mask names.
func (s *Server) UpdateTopic(ctx context.Context, in *controlv1.UpdateTopicRequest) (*controlv1.Topic, error) {
	asked := in.GetTopic()
	if asked == nil {
		return nil, fault.Errorf(fault.Invalid, "topic is missing: give its name and what to change")
	}
	values, err := readTopic(asked)
	if err != nil {
		return nil, err
	}
	fields, err := masked(in.GetUpdateMask().GetPaths(), asked)
	if err != nil {
		return nil, err
	}
	etag, err := readEtag(asked.GetEtag())
	if err != nil {
		return nil, err
	}
	altered, err := s.catalog.AlterTopic(ctx, catalog.AlterTopic{
		Name:         nameOf(asked.GetNamespace(), asked.GetTopic()),
		ModRevision:  etag,
		ValidateOnly: in.GetValidateOnly(),
		Change: func(t *topology.Topic) error {
			for _, set := range fields {
				set(t, &values)
			}
			return nil
		},
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	return writeTopic(altered, nil), nil
}

// DeleteTopic frees the name and leaves the data to be removed.
func (s *Server) DeleteTopic(ctx context.Context, in *controlv1.DeleteTopicRequest) (*emptypb.Empty, error) {
	var id partition.UUID
	if in.GetId() != "" {
		parsed, err := partition.ParseUUID(in.GetId())
		if err != nil {
			return nil, fault.Errorf(fault.Invalid, "id: %w", err)
		}
		id = parsed
	}
	if err := s.catalog.DeleteTopic(ctx, nameOf(in.GetNamespace(), in.GetTopic()), id); err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	return &emptypb.Empty{}, nil
}

func nameOf(namespace, topic string) topology.Name {
	if namespace == "" {
		namespace = topology.DefaultNamespace
	}
	return topology.Name{Namespace: namespace, Topic: topic}
}

func readEtag(etag string) (int64, error) {
	if etag == "" {
		return 0, nil
	}
	revision, err := strconv.ParseInt(etag, 10, 64)
	if err != nil || revision < 1 {
		return 0, fault.Errorf(fault.Invalid, "etag: %q was not made by this service: take it from a topic as read", etag)
	}
	return revision, nil
}

// page reads a list's size and the name behind which it goes on.
func page(size int32, token string) (limit int, after string, err error) {
	switch {
	case size < 0 || size > catalog.PageSizeMax:
		return 0, "", fault.Errorf(fault.Invalid, "pageSize: %d is outside 0 to %d", size, catalog.PageSizeMax)
	case size == 0:
		size = catalog.PageSizeDefault
	}
	name, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(name) > catalog.NameBytesMax {
		return 0, "", fault.Errorf(fault.Invalid, "pageToken: %q was not made by this service: take nextPageToken of the page before", token)
	}
	return int(size), string(name), nil
}

func pageToken(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }
