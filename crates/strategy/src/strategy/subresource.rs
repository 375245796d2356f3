//! [`Subresource`]: an entry in a kind's list of subresources, with what it does.
//!
//! The registry, the API server and OpenAPI dispatch on [`SubresourceKind`]; none of them compares names.

use setpoint_api::{ApiVerb, ApiVerbs};
use setpoint_schema::Tree;

use super::RequestFacts;
use crate::field::FieldRef;

/// A subresource.
#[derive(Debug, Clone, Copy)]
pub struct Subresource {
    pub name: &'static str,
    pub kind: SubresourceKind,
    pub verbs: ApiVerbs,
    /// Group, version and kind of its body; empty for the object's own.
    pub body_kind: (&'static str, &'static str, &'static str),
}

/// What a subresource does.
#[derive(Debug, Clone, Copy)]
pub enum SubresourceKind {
    Status,
    /// Updates some fields of the object; its body is the whole object.
    Partial(PartialRules),
    /// Changes the object by a body of another kind, such as an Eviction.
    Action(Action),
    /// The number of replicas, as a Scale.
    Scale,
    /// Computes a response from a created body and stores nothing, such as a TokenRequest.
    Virtual,
    /// A streaming connection to the pod, service or node.
    Connect(ConnectKind),
}

/// The rules of an update by a [`SubresourceKind::Partial`].
#[derive(Debug, Clone, Copy)]
pub struct PartialRules {
    /// Keeps everything but the fields of the subresource, given the old object.
    pub prepare: fn(&mut Tree, &Tree, &RequestFacts),
    /// Validates the new object and its changes, given the old object.
    pub validate: fn(&FieldRef<'_>, &FieldRef<'_>, &RequestFacts),
}

/// The change that a create of an action subresource makes to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Assigns a pod to a node.
    Bind,
    /// Deletes a pod, unless its disruption budget forbids it.
    Evict,
}

/// The connection that a connect subresource opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectKind {
    /// The streams of a container's first process.
    Attach,
    /// The streams of a new process in a container.
    Exec,
    /// The output of a container.
    Log,
    /// Connections to ports of a pod.
    PortForward,
    /// HTTP requests to any path.
    Proxy,
}

// === impl Subresource ===

impl Subresource {
    /// The verbs of a subresource that shows and updates the object.
    pub const GET_AND_CHANGE: ApiVerbs = ApiVerbs::new(&[ApiVerb::Get, ApiVerb::Patch, ApiVerb::Update]);

    pub const STATUS: Self = Self {
        name: "status",
        kind: SubresourceKind::Status,
        verbs: Self::GET_AND_CHANGE,
        body_kind: ("", "", ""),
    };

    pub const SCALE: Self = Self {
        name: "scale",
        kind: SubresourceKind::Scale,
        verbs: Self::GET_AND_CHANGE,
        body_kind: ("autoscaling", "v1", "Scale"),
    };

    /// A create-only subresource that computes a response to a body of this group, version and kind.
    pub const fn virtual_resource(
        name: &'static str,
        kind: (&'static str, &'static str, &'static str),
    ) -> Self {
        Self {
            name,
            kind: SubresourceKind::Virtual,
            verbs: ApiVerbs::new(&[ApiVerb::Create]),
            body_kind: kind,
        }
    }

    /// A streaming subresource; `options` is the type of its options.
    pub const fn connect(kind: ConnectKind, options: (&'static str, &'static str, &'static str)) -> Self {
        Self {
            name: kind.name(),
            kind: SubresourceKind::Connect(kind),
            verbs: kind.verbs(),
            body_kind: options,
        }
    }

    /// A subresource that shows the object and updates some fields of it.
    pub const fn partial(name: &'static str, rules: PartialRules) -> Self {
        Self {
            name,
            kind: SubresourceKind::Partial(rules),
            verbs: Self::GET_AND_CHANGE,
            body_kind: ("", "", ""),
        }
    }

    /// A create-only subresource that changes the object by a body of this group, version and kind.
    pub const fn action(
        name: &'static str,
        action: Action,
        kind: (&'static str, &'static str, &'static str),
    ) -> Self {
        Self {
            kind: SubresourceKind::Action(action),
            ..Self::virtual_resource(name, kind)
        }
    }

    /// The connection it opens, if it is a connect subresource.
    pub const fn connect_kind(&self) -> Option<ConnectKind> {
        match self.kind {
            SubresourceKind::Connect(kind) => Some(kind),
            _ => None,
        }
    }

    pub const fn is_status(&self) -> bool {
        matches!(self.kind, SubresourceKind::Status)
    }
}

// === impl ConnectKind ===

impl ConnectKind {
    pub const ALL: [Self; 5] = [
        Self::Attach,
        Self::Exec,
        Self::Log,
        Self::PortForward,
        Self::Proxy,
    ];

    /// The name of the subresource.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Attach => "attach",
            Self::Exec => "exec",
            Self::Log => "log",
            Self::PortForward => "portforward",
            Self::Proxy => "proxy",
        }
    }

    /// The connection that a subresource of this name opens, on every kind that has one.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether it takes any method, and a path after the subresource.
    pub const fn is_proxy(self) -> bool {
        matches!(self, Self::Proxy)
    }

    const fn verbs(self) -> ApiVerbs {
        match self {
            Self::Attach | Self::Exec | Self::PortForward => ApiVerbs::new(&[ApiVerb::Create, ApiVerb::Get]),
            Self::Log => ApiVerbs::new(&[ApiVerb::Get]),
            Self::Proxy => ApiVerbs::new(&[
                ApiVerb::Create,
                ApiVerb::Delete,
                ApiVerb::Get,
                ApiVerb::Patch,
                ApiVerb::Update,
            ]),
        }
    }
}
