//! Node agents: each may see and change what belongs to its own node, and nothing else.
//!
//! A secret, a config map or a volume belongs to a node if a pod bound to that node uses it. Who may write which fields
//! of which object is for admission to say; here only resource, verb and name are known.
//!
//! The rules are those of `plugin/pkg/auth/authorizer/node/node_authorizer.go` in Kubernetes.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use setpoint_api::User;
use setpoint_cache::Caches;

mod relations;
mod uniform;
mod view;

use relations::{Related, Relations};

use super::{Attributes, Authorize, Decision, Object, Reason};

/// How the name of a node as a user starts.
const PREFIX: &str = "system:node:";
/// The group of all nodes.
pub const GROUP: &str = "system:nodes";
/// The namespace of the leases by which nodes say that they live.
const LEASES: &str = "kube-node-lease";

/// Allows node agents what they need.
pub struct Nodes {
    relations: Relations,
}

/// Allowed, or why not; an empty reason says nothing.
type Answer = Result<(), Cow<'static, str>>;

const NOTHING_TO_SAY: Answer = Err(Cow::Borrowed(""));

/// A request of a node about a resource.
#[derive(Debug, Clone, Copy)]
struct Asked<'a> {
    node: &'a str,
    verb: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// The node that a field selector pins the request to.
    pinned: Option<&'a str>,
}

/// The node that a user is.
pub fn node_of(user: &User) -> Option<&str> {
    let node = user.name.strip_prefix(PREFIX)?;
    user.is_in(GROUP).then_some(node)
}

impl Nodes {
    pub fn new(caches: Arc<dyn Caches>) -> Self {
        Self {
            relations: Relations::new(caches),
        }
    }

    fn ask(&self, node: &str, attributes: &Attributes<'_>) -> Answer {
        let Object::Resource {
            group,
            resource,
            subresource,
            namespace,
            name,
        } = attributes.object
        else {
            return uniform::ask(attributes);
        };
        let asked = Asked {
            node,
            verb: attributes.verb,
            subresource,
            namespace,
            name,
            pinned: attributes
                .fields
                .and_then(|fields| fields.pinned("spec.nodeName")),
        };
        match (group, resource) {
            ("", "secrets") => self.read(&asked, Related::Secret),
            ("", "configmaps") => self.read(&asked, Related::ConfigMap),
            ("", "persistentvolumeclaims") if subresource == "status" => self.claim_status(&asked),
            ("", "persistentvolumeclaims") => self.get(&asked, Related::Claim),
            ("", "persistentvolumes") => self.get(&asked, Related::Volume),
            ("", "serviceaccounts") => self.service_account(&asked),
            ("", "nodes") => own_node(&asked),
            ("", "pods") => self.pod(&asked),
            ("coordination.k8s.io", "leases") => own_lease(&asked),
            ("storage.k8s.io", "volumeattachments") => self.get(&asked, Related::Attachment),
            ("storage.k8s.io", "csinodes") => own_csi_node(&asked),
            ("resource.k8s.io", "resourceclaims") => self.get(&asked, Related::ResourceClaim),
            ("resource.k8s.io", "resourceslices") => self.slice(&asked),
            ("certificates.k8s.io", "podcertificaterequests") => self.pod_certificate(&asked),
            _ => uniform::ask(attributes),
        }
    }

    fn get(&self, asked: &Asked<'_>, related: Related) -> Answer {
        if asked.verb != "get" {
            return refuse("can only get individual resources of this type");
        }
        if !asked.subresource.is_empty() {
            return refuse("cannot get subresource");
        }
        self.related(asked, related)
    }

    fn read(&self, asked: &Asked<'_>, related: Related) -> Answer {
        if !matches!(asked.verb, "get" | "list" | "watch") {
            return refuse("can only read resources of this type");
        }
        if !asked.subresource.is_empty() {
            return refuse("cannot read subresource");
        }
        if asked.namespace.is_empty() {
            return refuse("can only read namespaced object of this type");
        }
        self.related(asked, related)
    }

    fn claim_status(&self, asked: &Asked<'_>) -> Answer {
        match asked.verb {
            "update" | "patch" => self.related(asked, Related::Claim),
            _ => refuse("can only get/update/patch this type"),
        }
    }

    fn service_account(&self, asked: &Asked<'_>) -> Answer {
        if asked.verb == "get" && asked.subresource.is_empty() {
            return self.read(asked, Related::ServiceAccount);
        }
        if asked.verb != "create" || asked.name.is_empty() {
            return refuse("can only create tokens for individual service accounts");
        }
        if asked.subresource != "token" {
            return refuse("can only create token subresource of serviceaccount");
        }
        self.related(asked, Related::ServiceAccount)
    }

    fn pod(&self, asked: &Asked<'_>) -> Answer {
        match (asked.subresource, asked.verb) {
            ("", "get") => self.get(asked, Related::Pod),
            ("", "list" | "watch") if asked.pinned == Some(asked.node) => Ok(()),
            ("", "list" | "watch") if !asked.name.is_empty() => self.related(asked, Related::Pod),
            ("", "list" | "watch") => refuse("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => NOTHING_TO_SAY,
        }
    }

    fn slice(&self, asked: &Asked<'_>) -> Answer {
        if !asked.subresource.is_empty() {
            return refuse("cannot authorize ResourceSlice subresources");
        }
        match asked.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.related(asked, Related::Slice),
            "watch" | "list" | "deletecollection" if asked.pinned == Some(asked.node) => Ok(()),
            "watch" | "list" | "deletecollection" => {
                refuse("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => refuse(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection",
            ),
        }
    }

    fn pod_certificate(&self, asked: &Asked<'_>) -> Answer {
        if !asked.subresource.is_empty() {
            return refuse("nodes may not access the status subresource of PodCertificateRequests");
        }
        match asked.verb {
            "create" => Ok(()),
            "get" => self.related(asked, Related::PodCertificate),
            "list" | "watch" if asked.pinned == Some(asked.node) => Ok(()),
            "list" | "watch" => {
                refuse("can only list/watch podcertificaterequests with nodeName field selector")
            }
            verb => Err(format!("nodes may not {verb} podcertificaterequests").into()),
        }
    }

    fn related(&self, asked: &Asked<'_>, related: Related) -> Answer {
        if asked.name.is_empty() {
            return refuse("No Object name found");
        }
        match self
            .relations
            .are(asked.node, related, asked.namespace, asked.name)
        {
            true => Ok(()),
            false => Err(format!(
                "no relationship found between node '{}' and this object",
                asked.node
            )
            .into()),
        }
    }
}

fn own_node(asked: &Asked<'_>) -> Answer {
    match (asked.subresource, asked.verb, asked.name) {
        ("", "create" | "update" | "patch", _) | ("status", "update" | "patch", _) => Ok(()),
        ("", "get" | "list" | "watch", name) if name == asked.node => Ok(()),
        ("", "get" | "list" | "watch", "") => Err(format!(
            "node '{}' cannot read all nodes, only its own Node object",
            asked.node
        )
        .into()),
        ("", "get" | "list" | "watch", name) => Err(format!(
            "node '{}' cannot read '{name}', only its own Node object",
            asked.node
        )
        .into()),
        _ => NOTHING_TO_SAY,
    }
}

fn own_lease(asked: &Asked<'_>) -> Answer {
    if !changes_one(asked.verb) {
        return refuse("can only get, create, update, patch, or delete a node lease");
    }
    if asked.namespace != LEASES {
        return Err(format!("can only access leases in the {LEASES:?} system namespace").into());
    }
    // A create does not say the name yet; admission sees it.
    if asked.verb != "create" && asked.name != asked.node {
        return refuse("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn own_csi_node(asked: &Asked<'_>) -> Answer {
    match asked.subresource {
        "" if changes_one(asked.verb) => {}
        "" => return refuse("can only get, create, update, patch, or delete a CSINode"),
        "status" => return refuse("CSINode status access requires CSIVolumeHealth feature"),
        _ => return refuse("cannot authorize CSINode subresources"),
    }
    if asked.verb != "create" && asked.name != asked.node {
        return refuse("can only access CSINode with the same name as the requesting node");
    }
    Ok(())
}

fn changes_one(verb: &str) -> bool {
    matches!(verb, "get" | "create" | "update" | "patch" | "delete")
}

fn refuse(why: &'static str) -> Answer {
    Err(Cow::Borrowed(why))
}

impl Authorize for Nodes {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        let Some(node) = node_of(user) else {
            return Decision::NO_OPINION;
        };
        if node.is_empty() {
            return Decision::NoOpinion(format!("unknown node for user {:?}", user.name).into());
        }
        match self.ask(node, attributes) {
            Ok(()) => Decision::Allowed(Reason::None),
            Err(why) if why.is_empty() => Decision::NO_OPINION,
            Err(why) => Decision::NoOpinion(Reason::Text(why)),
        }
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
