package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/seedqueue/sq/cli/internal/value"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

const (
	// controlTimeout bounds a call of the control API.
	controlTimeout = 30 * time.Second
	// completionTimeout bounds the look for names while somebody types.
	completionTimeout = 2 * time.Second

	outputText = "text"
	outputJSON = "json"
)

func outputFlag(cmd *cobra.Command, output *string) {
	*output = outputText
	cmd.Flags().VarP(value.OneOf{To: output, Legal: []string{outputText, outputJSON}}, "output", "o", "text or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputText, outputJSON}, cobra.ShellCompDirectiveNoFileComp))
}

// control runs a call of the control API within its time.
func (p *program) control(ctx context.Context, call func(context.Context, grpc.ClientConnInterface) error) error {
	conn, err := p.dialControl()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	answered := p.waiting(p.api)
	err = call(ctx, conn)
	answered()
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); !ok {
		return err // not of the call, but of what was done with the answer
	}
	return &controlError{answered: faultwire.Reason(err) != "", addr: p.api, err: faultwire.FromGRPC(err)}
}

// dialControl makes a connection to the first gateway of --api that takes one.
func (p *program) dialControl() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+p.api, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addrs string) (conn net.Conn, err error) {
			for addr := range strings.SplitSeq(addrs, ",") {
				var dialer net.Dialer
				if conn, err = dialer.DialContext(ctx, "tcp", strings.TrimSpace(addr)); err == nil {
					return conn, nil
				}
			}
			return nil, err //nolint:wrapcheck // names the address.
		}))
	if err != nil {
		return nil, usagef("--api %q: %w", p.api, err)
	}
	return conn, nil
}

// controlError is an error of the control API. answered: it is SQ's own and not one of the connection.
type controlError struct {
	answered bool
	addr     string
	err      error
}

func (e *controlError) Error() string {
	text := e.err.Error()
	if e.answered {
		return text
	}
	if desc, found := strings.CutPrefix(text, "connection error: desc = \""); found { // gRPC's way to wrap it
		text = strings.TrimPrefix(strings.TrimSuffix(desc, "\""), "transport: Error while dialing: ")
	}
	return fmt.Sprintf("call %s: %s", e.addr, text)
}
func (e *controlError) Unwrap() error { return e.err }

// advice says what to do next about an error, if there is something.
func (p *program) advice(err error) string {
	if errors.Is(err, syscall.EADDRINUSE) {
		return "Another program listens there, perhaps another 'sq dev'. Stop it, or choose other addresses: see 'sq dev --help'."
	}
	if damaged, ok := errors.AsType[*damagedError](err); ok {
		return fmt.Sprintf("'sq inspect verify %s' says what that means.", damaged.path)
	}
	c, control := errors.AsType[*controlError](err)
	if !control {
		return p.dataAdvice(err)
	}
	switch kind := fault.KindOf(err); {
	case kind == fault.Unavailable && !c.answered:
		return fmt.Sprintf("No control API of SQ answers at %s. Start SQ with 'sq dev', or name a gateway with --api or SQ_API.", p.api)
	case kind == fault.NotFound:
		return "Look with 'sq topic list' and 'sq topic describe NAME'; create with 'sq topic create NAME'."
	case kind == fault.Unavailable, kind == fault.Overloaded, kind == fault.NotLeader:
		return "Try again in a moment."
	case kind == fault.DeadlineExceeded, kind == fault.OutcomeUnknown:
		return "Whether it was done shows 'sq topic describe NAME'."
	default:
		return ""
	}
}

// print shows a message as JSON with all its fields, as REST does.
func (p *program) print(message proto.Message) error {
	data, err := protojson.MarshalOptions{Multiline: true, EmitDefaultValues: true}.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_, err = fmt.Fprintln(p.env.Stdout, string(data))
	return err
}

// completeTopics gives the names of topics that begin with what was typed.
func (p *program) completeTopics(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	var names []string
	err := p.eachTopic(ctx, func(t *controlv1.Topic) error {
		if len(t.GetTopic()) >= len(typed) && t.GetTopic()[:len(typed)] == typed {
			names = append(names, t.GetTopic())
		}
		return nil
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError | cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// eachTopic lists the topics of the namespace.
func (p *program) eachTopic(ctx context.Context, each func(*controlv1.Topic) error) error {
	return p.control(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		client := controlv1.NewTopicServiceClient(conn)
		in := &controlv1.ListTopicsRequest{Namespace: p.namespace, PageSize: 1000}
		for {
			page, err := client.ListTopics(ctx, in)
			if err != nil {
				return err
			}
			for _, t := range page.GetTopics() {
				if err := each(t); err != nil {
					return err
				}
			}
			if in.PageToken = page.GetNextPageToken(); in.GetPageToken() == "" {
				return nil
			}
		}
	})
}
