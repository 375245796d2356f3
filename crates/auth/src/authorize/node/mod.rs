//! The node authorizer: each kubelet may read and write the objects related to its own node only.
//!
//! A Secret, a ConfigMap or a volume is related to a node if a pod bound to that node uses it. Which fields of an object a
//! node may write is checked by admission (NodeRestriction); here only resource, verb and name are known.
//!
//! The rules are those of `plugin/pkg/auth/authorizer/node/node_authorizer.go` in Kubernetes.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use setpoint_api::ApiVerb::{self, Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch};
use setpoint_api::User;
use setpoint_cache::Caches;

mod common_rules;
mod relations;
mod view;

use relations::{NodeRelations, RelatedKind};

use super::{AccessTarget, Attributes, Authorize, Decision, Reason, UserRules};
use crate::maybe_future::MaybeFuture;

/// The prefix of the user name of a node.
const PREFIX: &str = "system:node:";
/// The group of all nodes.
pub const GROUP: &str = "system:nodes";
/// The namespace of the nodes' heartbeat leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Authorizes kubelets.
pub struct NodeAuthorizer {
    relations: NodeRelations,
}

/// Allowed, or the reason why not; an empty reason means no opinion.
type NodeDecision = Result<(), Cow<'static, str>>;

const NO_OPINION: NodeDecision = Err(Cow::Borrowed(""));

/// A request of a node for a resource.
#[derive(Debug, Clone, Copy)]
struct NodeRequest<'a> {
    node: &'a str,
    /// `None` for a verb that only RBAC knows; the node authorizer allows none of them.
    verb: Option<ApiVerb>,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// The node that the field selector restricts the request to.
    selected_node: Option<&'a str>,
}

/// The node name of a user that is a node.
pub fn node_of(user: &User) -> Option<&str> {
    let node = user.name.strip_prefix(PREFIX)?;
    user.is_in(GROUP).then_some(node)
}

impl NodeAuthorizer {
    pub fn new(caches: Arc<dyn Caches>) -> Self {
        Self {
            relations: NodeRelations::new(caches),
        }
    }

    fn decide(&self, node: &str, attributes: &Attributes<'_>) -> NodeDecision {
        let AccessTarget::Resource {
            group,
            resource,
            subresource,
            namespace,
            name,
        } = attributes.target
        else {
            return common_rules::decide(attributes);
        };
        let request = NodeRequest {
            node,
            verb: attributes.verb.parse().ok(),
            subresource,
            namespace,
            name,
            selected_node: attributes
                .fields
                .and_then(|fields| fields.exact_match("spec.nodeName")),
        };
        match (group, resource) {
            ("", "secrets") => self.read(&request, RelatedKind::Secret),
            ("", "configmaps") => self.read(&request, RelatedKind::ConfigMap),
            ("", "persistentvolumeclaims") if subresource == "status" => self.claim_status(&request),
            ("", "persistentvolumeclaims") => self.get(&request, RelatedKind::Claim),
            ("", "persistentvolumes") => self.get(&request, RelatedKind::Volume),
            ("", "serviceaccounts") => self.service_account(&request),
            ("", "nodes") => own_node(&request),
            ("", "pods") => self.pod(&request),
            ("coordination.k8s.io", "leases") => own_lease(&request),
            ("storage.k8s.io", "volumeattachments") => self.get(&request, RelatedKind::Attachment),
            ("storage.k8s.io", "csinodes") => own_csi_node(&request),
            ("resource.k8s.io", "resourceclaims") => self.get(&request, RelatedKind::ResourceClaim),
            ("resource.k8s.io", "resourceslices") => self.slice(&request),
            ("certificates.k8s.io", "podcertificaterequests") => {
                self.pod_certificate(&request, attributes.verb)
            }
            _ => common_rules::decide(attributes),
        }
    }

    fn get(&self, request: &NodeRequest<'_>, related: RelatedKind) -> NodeDecision {
        if request.verb != Some(Get) {
            return deny("can only get individual resources of this type");
        }
        if !request.subresource.is_empty() {
            return deny("cannot get subresource");
        }
        self.related(request, related)
    }

    fn read(&self, request: &NodeRequest<'_>, related: RelatedKind) -> NodeDecision {
        if !matches!(request.verb, Some(Get | List | Watch)) {
            return deny("can only read resources of this type");
        }
        if !request.subresource.is_empty() {
            return deny("cannot read subresource");
        }
        if request.namespace.is_empty() {
            return deny("can only read namespaced object of this type");
        }
        self.related(request, related)
    }

    fn claim_status(&self, request: &NodeRequest<'_>) -> NodeDecision {
        match request.verb {
            Some(Update | Patch) => self.related(request, RelatedKind::Claim),
            _ => deny("can only get/update/patch this type"),
        }
    }

    fn service_account(&self, request: &NodeRequest<'_>) -> NodeDecision {
        if request.verb == Some(Get) && request.subresource.is_empty() {
            return self.read(request, RelatedKind::ServiceAccount);
        }
        if request.verb != Some(Create) || request.name.is_empty() {
            return deny("can only create tokens for individual service accounts");
        }
        if request.subresource != "token" {
            return deny("can only create token subresource of serviceaccount");
        }
        self.related(request, RelatedKind::ServiceAccount)
    }

    fn pod(&self, request: &NodeRequest<'_>) -> NodeDecision {
        match (request.subresource, request.verb) {
            ("", Some(Get)) => self.get(request, RelatedKind::Pod),
            ("", Some(List | Watch)) if request.selected_node == Some(request.node) => Ok(()),
            ("", Some(List | Watch)) if !request.name.is_empty() => self.related(request, RelatedKind::Pod),
            ("", Some(List | Watch)) => deny("can only list/watch pods with spec.nodeName field selector"),
            ("", Some(Create | Delete)) | ("status", Some(Update | Patch)) | ("eviction", Some(Create)) => {
                Ok(())
            }
            _ => NO_OPINION,
        }
    }

    fn slice(&self, request: &NodeRequest<'_>) -> NodeDecision {
        if !request.subresource.is_empty() {
            return deny("cannot authorize ResourceSlice subresources");
        }
        match request.verb {
            Some(Create) => Ok(()),
            Some(Get | Update | Patch | Delete) => self.related(request, RelatedKind::Slice),
            Some(Watch | List | DeleteCollection) if request.selected_node == Some(request.node) => Ok(()),
            Some(Watch | List | DeleteCollection) => {
                deny("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => deny(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection",
            ),
        }
    }

    fn pod_certificate(&self, request: &NodeRequest<'_>, verb: &str) -> NodeDecision {
        if !request.subresource.is_empty() {
            return deny("nodes may not access the status subresource of PodCertificateRequests");
        }
        match request.verb {
            Some(Create) => Ok(()),
            Some(Get) => self.related(request, RelatedKind::PodCertificate),
            Some(List | Watch) if request.selected_node == Some(request.node) => Ok(()),
            Some(List | Watch) => {
                deny("can only list/watch podcertificaterequests with nodeName field selector")
            }
            _ => Err(format!("nodes may not {verb} podcertificaterequests").into()),
        }
    }

    fn related(&self, request: &NodeRequest<'_>, related: RelatedKind) -> NodeDecision {
        if request.name.is_empty() {
            return deny("No Object name found");
        }
        match self
            .relations
            .is_related(request.node, related, request.namespace, request.name)
        {
            true => Ok(()),
            false => Err(format!(
                "no relationship found between node '{}' and this object",
                request.node
            )
            .into()),
        }
    }
}

fn own_node(request: &NodeRequest<'_>) -> NodeDecision {
    match (request.subresource, request.verb, request.name) {
        ("", Some(Create | Update | Patch), _) | ("status", Some(Update | Patch), _) => Ok(()),
        ("", Some(Get | List | Watch), name) if name == request.node => Ok(()),
        ("", Some(Get | List | Watch), "") => Err(format!(
            "node '{}' cannot read all nodes, only its own Node object",
            request.node
        )
        .into()),
        ("", Some(Get | List | Watch), name) => Err(format!(
            "node '{}' cannot read '{name}', only its own Node object",
            request.node
        )
        .into()),
        _ => NO_OPINION,
    }
}

fn own_lease(request: &NodeRequest<'_>) -> NodeDecision {
    if !is_single_object_verb(request.verb) {
        return deny("can only get, create, update, patch, or delete a node lease");
    }
    if request.namespace != LEASE_NAMESPACE {
        return Err(format!("can only access leases in the {LEASE_NAMESPACE:?} system namespace").into());
    }
    // The name of an object to create is not in the URL; admission checks it.
    if request.verb != Some(Create) && request.name != request.node {
        return deny("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn own_csi_node(request: &NodeRequest<'_>) -> NodeDecision {
    match request.subresource {
        "" if is_single_object_verb(request.verb) => {}
        "" => return deny("can only get, create, update, patch, or delete a CSINode"),
        "status" => return deny("CSINode status access requires CSIVolumeHealth feature"),
        _ => return deny("cannot authorize CSINode subresources"),
    }
    if request.verb != Some(Create) && request.name != request.node {
        return deny("can only access CSINode with the same name as the requesting node");
    }
    Ok(())
}

fn is_single_object_verb(verb: Option<ApiVerb>) -> bool {
    matches!(verb, Some(Get | Create | Update | Patch | Delete))
}

fn deny(why: &'static str) -> NodeDecision {
    Err(Cow::Borrowed(why))
}

impl Authorize for NodeAuthorizer {
    fn authorize<'a>(&'a self, user: &'a User, attributes: &'a Attributes<'a>) -> MaybeFuture<'a, Decision> {
        let Some(node) = node_of(user) else {
            return Decision::NO_OPINION.into();
        };
        if node.is_empty() {
            return Decision::NoOpinion(format!("unknown node for user {:?}", user.name).into()).into();
        }
        let decision = match self.decide(node, attributes) {
            Ok(()) => Decision::Allowed(Reason::None),
            Err(why) if why.is_empty() => Decision::NO_OPINION,
            Err(why) => Decision::NoOpinion(Reason::Text(why)),
        };
        decision.into()
    }

    /// The permissions of a node depend on its pods and cannot be listed.
    fn rules_for(&self, user: &User, _: &str) -> UserRules {
        match node_of(user) {
            None => UserRules::default(),
            Some(_) => UserRules::unsupported("node authorizer does not support user rule resolution"),
        }
    }
}

impl fmt::Debug for NodeAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeAuthorizer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
