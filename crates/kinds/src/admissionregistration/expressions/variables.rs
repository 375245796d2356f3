//! The variables of expressions and their types.

use std::sync::LazyLock;

use setpoint_cel::{ListSemantics, Type, ValueSchema};

/// A variable of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// The object under review; null in a deletion.
    Object,
    /// The stored object; null in a create.
    OldObject,
    /// The namespace of the object; null for cluster-scoped objects.
    NamespaceObject,
    /// The attributes of the request.
    Request,
    /// The parameters of the binding.
    Params,
    /// Authorization checks for the user of the request.
    Authorizer,
    /// An authorization check for the resource of the request.
    RequestResource,
    /// The variables of the policy.
    Variables,
}

/// The variables that only some expressions may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OptionalVariables {
    pub params: bool,
    pub authorizer: bool,
}

impl OptionalVariables {
    /// All variables of an expression, in the order in which an evaluation gets their values.
    pub(super) fn variables(self, with_composition: bool) -> Vec<Variable> {
        let optional = [
            (self.params, Variable::Params),
            (self.authorizer, Variable::Authorizer),
            (self.authorizer, Variable::RequestResource),
            (with_composition, Variable::Variables),
        ];
        let always = [
            Variable::Object,
            Variable::OldObject,
            Variable::NamespaceObject,
            Variable::Request,
        ];
        let optional = optional.into_iter().filter(|(is_declared, _)| *is_declared);
        always
            .into_iter()
            .chain(optional.map(|(_, variable)| variable))
            .collect()
    }
}

impl Variable {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::OldObject => "oldObject",
            Self::NamespaceObject => "namespaceObject",
            Self::Request => "request",
            Self::Params => "params",
            Self::Authorizer => "authorizer",
            Self::RequestResource => "authorizer.requestResource",
            Self::Variables => "variables",
        }
    }

    pub(super) fn schema(self) -> ValueSchema {
        match self {
            Self::NamespaceObject => NAMESPACE.clone(),
            Self::Request => REQUEST.clone(),
            Self::Authorizer => scalar(Type::Opaque("kubernetes.authorization.Authorizer")),
            Self::RequestResource => scalar(Type::Opaque("kubernetes.authorization.ResourceCheck")),
            Self::Object | Self::OldObject | Self::Params | Self::Variables => scalar(Type::Dyn),
        }
    }
}

fn scalar(own: Type) -> ValueSchema {
    ValueSchema::scalar(own)
}

fn text() -> ValueSchema {
    scalar(Type::String)
}

fn texts() -> ValueSchema {
    ValueSchema::list(text(), ListSemantics::Atomic)
}

fn object<const N: usize>(name: &str, fields: [(&str, ValueSchema); N]) -> ValueSchema {
    ValueSchema::object(name, fields.map(|(name, schema)| (name.to_owned(), schema)))
}

/// The AdmissionRequest of upstream, without the objects, which are variables of their own.
static REQUEST: LazyLock<ValueSchema> = LazyLock::new(|| {
    let kind = || {
        object(
            "kubernetes.GroupVersionKind",
            ["group", "version", "kind"].map(|name| (name, text())),
        )
    };
    let resource = || {
        let fields = ["group", "version", "resource"].map(|name| (name, text()));
        object("kubernetes.GroupVersionResource", fields)
    };
    let user = object(
        "kubernetes.UserInfo",
        [
            ("username", text()),
            ("uid", text()),
            ("groups", texts()),
            ("extra", ValueSchema::map(texts())),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", scalar(Type::Bool)),
            ("options", scalar(Type::Dyn)),
        ],
    )
});

/// A Namespace, with the fields that upstream declares.
static NAMESPACE: LazyLock<ValueSchema> = LazyLock::new(|| {
    let condition = object(
        "kubernetes.NamespaceCondition",
        [
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", scalar(Type::Timestamp)),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let status = object(
        "kubernetes.NamespaceStatus",
        [
            ("conditions", ValueSchema::list(condition, ListSemantics::Atomic)),
            ("phase", text()),
        ],
    );
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", ValueSchema::map(text())),
            ("annotations", ValueSchema::map(text())),
            ("UID", text()),
            ("creationTimestamp", scalar(Type::Timestamp)),
            ("deletionGracePeriodSeconds", scalar(Type::Int)),
            ("deletionTimestamp", scalar(Type::Timestamp)),
            ("generation", scalar(Type::Int)),
            ("resourceVersion", text()),
            ("finalizers", texts()),
        ],
    );
    object(
        "kubernetes.Namespace",
        [
            ("metadata", metadata),
            (
                "spec",
                object("kubernetes.NamespaceSpec", [("finalizers", texts())]),
            ),
            ("status", status),
        ],
    )
});
