package catalog

import (
	"context"
	"slices"
	"strings"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// NamedNamespace is a namespace with its name.
type NamedNamespace struct {
	Name string
	topology.Namespace
}

// EnsureDefault makes the namespace `default` where it is missing.
func (c *Catalog) EnsureDefault(ctx context.Context) error {
	_, err := c.makeNamespace(ctx, topology.DefaultNamespace, &request{})
	if fault.Is(err, fault.Exists) {
		return nil
	}
	return fault.Wrap("create namespace "+topology.DefaultNamespace, err)
}

// CreateNamespace makes a namespace.
func (c *Catalog) CreateNamespace(ctx context.Context, name, requestID string) (topology.Namespace, error) {
	made, err := c.createNamespace(ctx, name, requestID)
	return made, fault.Wrap("create namespace "+name, err)
}

func (c *Catalog) createNamespace(ctx context.Context, name, requestID string) (topology.Namespace, error) {
	if err := CheckName("namespace", name); err != nil {
		return topology.Namespace{}, err
	}
	req, err := newRequest(requestID, kindCreateNamespace, name)
	if err != nil {
		return topology.Namespace{}, err
	}
	if replay, ok, err := c.replayNamespace(ctx, req, name); ok || err != nil {
		return replay, err
	}
	made, err := c.makeNamespace(ctx, name, req)
	if fault.Is(err, fault.Exists) { // perhaps by the same request, a moment ago
		if replay, ok, replayErr := c.replayNamespace(ctx, req, name); ok || replayErr != nil {
			return replay, replayErr
		}
	}
	return made, err
}

func (c *Catalog) replayNamespace(ctx context.Context, req *request, name string) (topology.Namespace, bool, error) {
	if _, ok, err := c.replayed(ctx, req); err != nil || !ok {
		return topology.Namespace{}, false, err
	}
	found, ok, err := get[topology.Namespace](ctx, c.cfg.Store, topology.NamespaceKey(name))
	if err != nil {
		return topology.Namespace{}, false, err
	}
	if !ok {
		return topology.Namespace{}, false, fault.Errorf(fault.NotFound, "the namespace that requestId %q created was deleted since", req.id)
	}
	return found.Value, true, nil
}

func (c *Catalog) makeNamespace(ctx context.Context, name string, req *request) (topology.Namespace, error) {
	made := topology.Namespace{V: topology.SchemaVersion, Created: c.cfg.Clock.Now().UTC()}
	compares, ops, err := c.record(ctx, req, partition.UUID{})
	if err != nil {
		return topology.Namespace{}, err
	}
	op, err := put(topology.NamespaceKey(name), made)
	if err != nil {
		return topology.Namespace{}, err
	}
	revision, ok, err := c.write(ctx, append(compares, missing(op.Key)), append(ops, op))
	if err != nil {
		return topology.Namespace{}, err
	}
	if ok {
		c.show(ctx, revision)
		return made, nil
	}
	c.forget(ctx, req)
	_, exists, err := get[topology.Namespace](ctx, c.cfg.Store, op.Key)
	switch {
	case err != nil:
		return topology.Namespace{}, err
	case exists:
		return topology.Namespace{}, fault.Errorf(fault.Exists, "a namespace with this name exists")
	default:
		return topology.Namespace{}, c.standby()
	}
}

// Namespaces lists namespaces by name, at most limit of those behind the name after. more tells whether others follow.
func (c *Catalog) Namespaces(ctx context.Context, after string, limit int) (found []NamedNamespace, more bool, err error) {
	v, err := c.Fresh(ctx)
	if err != nil {
		return nil, false, err
	}
	for name, namespace := range v.Namespaces {
		if name > after {
			found = append(found, NamedNamespace{Name: name, Namespace: namespace.Value})
		}
	}
	slices.SortFunc(found, func(a, b NamedNamespace) int { return strings.Compare(a.Name, b.Name) })
	if len(found) > limit {
		return found[:limit], true, nil
	}
	return found, false, nil
}

// DeleteNamespace removes a namespace that has no topic.
func (c *Catalog) DeleteNamespace(ctx context.Context, name string) error {
	c.namespaces.Lock()
	defer c.namespaces.Unlock()
	return fault.Wrap("delete namespace "+name, c.deleteNamespace(ctx, name))
}

func (c *Catalog) deleteNamespace(ctx context.Context, name string) error {
	if err := CheckName("namespace", name); err != nil {
		return err
	}
	if name == topology.DefaultNamespace {
		return fault.Errorf(fault.Invalid, "namespace: %q always exists", name)
	}
	if _, err := c.cfg.Office.Guard(); err != nil {
		return err //nolint:wrapcheck // the answer itself.
	}
	found, ok, err := get[topology.Namespace](ctx, c.cfg.Store, topology.NamespaceKey(name))
	if err != nil {
		return err
	}
	if !ok {
		return fault.Errorf(fault.NotFound, "namespace %q does not exist", name)
	}
	names, _, err := c.cfg.Store.List(ctx, topology.NamesPrefix+name+"/", 0)
	if err != nil {
		return err //nolint:wrapcheck // names the call.
	}
	if len(names) > 0 {
		return fault.Errorf(fault.Conflict, "it has %d topics: delete them first", len(names))
	}
	key := topology.NamespaceKey(name)
	revision, ok, err := c.write(ctx, []topology.Compare{unchanged(key, found.ModRevision)}, []topology.Op{{Key: key, Delete: true}})
	if err != nil {
		return err
	}
	if !ok {
		return c.standby()
	}
	c.show(ctx, revision)
	return nil
}
