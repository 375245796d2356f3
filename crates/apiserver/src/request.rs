//! The only path parser: from method, path and query to what is asked.
//!
//! The grammar is `/api/VERSION/REST` for the core group and `/apis/GROUP/VERSION/REST` for the others, where `REST` is
//! `[watch/][namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]`. Everything else is a path that is no resource. Nothing
//! here knows which resources there are: access is decided on what was asked, before anyone is told what exists.
//!
//! The rules follow Kubernetes' `apiserver/pkg/endpoints/request/requestinfo.go`.

use std::borrow::Cow;

use http::Method;
use setpoint_api::selector::FieldSelector;
use setpoint_api::{Gvr, Target};
use setpoint_auth::authorize::{Attributes, Object};

pub mod deadline;
pub mod delete;
pub mod options;
pub mod query;

use query::Query;

/// A request, understood but not yet allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The verb as access rules spell it.
    pub verb: &'static str,
    pub place: Place<'a>,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place<'a> {
    Resource(Address),
    /// A path that is no resource: discovery, health, metrics.
    Path(Cow<'a, str>),
}

/// A place among the resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub target: Target,
    /// The namespace access rules see. For a namespace itself that is its own name.
    pub namespace: String,
    /// The name access rules see: the target's, or the one a field selector asks for.
    pub name: String,
    /// What a list or a watch is narrowed to, as access rules see it.
    pub fields: FieldSelector,
    /// Whether the path goes on behind the subresource.
    pub deeper: bool,
}

/// How the path to the objects of one namespace starts.
const IN_NAMESPACE: &str = "namespaces/";
/// What may stand behind a namespace's name and is a part of the namespace, not a resource in it.
const NAMESPACE_PARTS: [&str; 2] = ["status", "finalize"];

/// The subresources that are streams.
const STREAMS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Understands a request by its method, path and query.
pub fn parse<'a>(method: &Method, path: &'a str, query: &Query<'_>) -> Asked<'a> {
    let path = query::decode(path, false);
    match split_version(&path)
        .and_then(|(group, version, rest)| resource(method, group, version, rest, query))
    {
        Some((verb, address)) => Asked {
            verb,
            place: Place::Resource(address),
        },
        None => Asked {
            verb: method_name(method),
            place: Place::Path(path),
        },
    }
}

/// Splits `/api/v1/pods/x` into group, version and what follows; `None` if nothing follows.
fn split_version(path: &str) -> Option<(&str, &str, &str)> {
    let (group, rest) = match path.strip_prefix("/apis/") {
        Some(rest) => rest.split_once('/')?,
        None => ("", path.strip_prefix("/api/")?),
    };
    let (version, rest) = rest.split_once('/')?;
    let rest = rest.trim_matches('/');
    (!version.is_empty() && !rest.is_empty()).then_some((group, version, rest))
}

fn resource(
    method: &Method,
    group: &str,
    version: &str,
    rest: &str,
    query: &Query<'_>,
) -> Option<(&'static str, Address)> {
    let (legacy_watch, rest) = match rest.strip_prefix("watch/") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (namespace, rest) = split_namespace(rest);
    let mut parts = rest.splitn(4, '/').map(|part| (!part.is_empty()).then_some(part));
    let resource = parts.next()??;
    let (name, subresource, deeper) = (
        parts.next().flatten(),
        parts.next().flatten(),
        parts.next().is_some(),
    );
    let is_namespace = namespace.is_none() && rest.starts_with(IN_NAMESPACE);
    let target = Target {
        resource: Gvr::new(group, version, resource),
        namespace: namespace.map(Into::into),
        name: name.map(Into::into),
        subresource: subresource.map(Into::into),
    };
    let fields = selected_fields(query);
    let address = Address {
        namespace: if is_namespace { name } else { namespace }
            .unwrap_or_default()
            .to_owned(),
        name: name
            .unwrap_or_else(|| fields.pinned("metadata.name").unwrap_or_default())
            .to_owned(),
        fields,
        target,
        deeper,
    };
    Some((verb(method, name.is_some(), legacy_watch, query), address))
}

/// Splits `namespaces/a/pods` into `a` and `pods`. A namespace itself, or a part of it, is a resource like others.
fn split_namespace(rest: &str) -> (Option<&str>, &str) {
    let split = rest
        .strip_prefix(IN_NAMESPACE)
        .and_then(|rest| rest.split_once('/'));
    match split {
        Some((namespace, inside)) if !is_namespace_part(inside) => (Some(namespace), inside),
        _ => (None, rest),
    }
}

fn is_namespace_part(inside: &str) -> bool {
    let first = inside.split('/').next().unwrap_or_default();
    NAMESPACE_PARTS.contains(&first)
}

fn verb(method: &Method, named: bool, legacy_watch: bool, query: &Query<'_>) -> &'static str {
    match *method {
        Method::GET | Method::HEAD if legacy_watch => "watch",
        Method::GET | Method::HEAD if named => "get",
        Method::GET | Method::HEAD if query.flag("watch").unwrap_or_default() => "watch",
        Method::GET | Method::HEAD => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ => "",
    }
}

/// The field selector; one that cannot be read narrows nothing, and is refused later.
fn selected_fields(query: &Query<'_>) -> FieldSelector {
    let selector = query.find("fieldSelector").unwrap_or_default();
    selector.parse().unwrap_or_default()
}

/// A method as access rules on paths spell it.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "",
    }
}

// === impl Asked ===

impl Asked<'_> {
    /// Whether the answer goes on for as long as the caller likes: watches, and streams to where objects run.
    pub fn is_long_running(&self) -> bool {
        let Place::Resource(address) = &self.place else {
            return false;
        };
        let part = address.target.subresource.as_deref().unwrap_or_default();
        self.verb == "watch" || STREAMS.contains(&part)
    }

    /// What access rules are asked about.
    pub fn attributes(&self) -> Attributes<'_> {
        let address = match &self.place {
            Place::Path(path) => return Attributes::new(self.verb, Object::Path(path)),
            Place::Resource(address) => address,
        };
        let object = Object::Resource {
            group: &address.target.resource.group,
            resource: &address.target.resource.resource,
            subresource: address.target.subresource.as_deref().unwrap_or_default(),
            namespace: &address.namespace,
            name: &address.name,
        };
        Attributes {
            fields: Some(&address.fields),
            ..Attributes::new(self.verb, object)
        }
    }
}

#[cfg(test)]
mod tests;
