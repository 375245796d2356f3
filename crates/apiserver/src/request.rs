//! Request parsing: from method, path and query to a [`RequestInfo`]. This is the only path parser.
//!
//! The grammar is `/api/VERSION/REST` for the core group and `/apis/GROUP/VERSION/REST` for the others, where `REST` is
//! `[watch/][namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]`. Everything else is a non-resource path. Nothing here
//! knows which resources exist: authorization uses the parsed request, before its response can reveal what exists.
//!
//! The rules follow Kubernetes' `apiserver/pkg/endpoints/request/requestinfo.go`.

use std::borrow::Cow;

use http::Method;
use setpoint_api::selector::FieldSelector;
use setpoint_api::{ApiVerb, Gvr, HttpVerb, Target};
use setpoint_auth::authorize::{AccessTarget, Attributes};
use setpoint_strategy::ConnectKind;

pub mod deadline;
pub mod delete;
pub mod options;
pub(crate) mod payload;
pub mod query;

use query::Query;

/// A parsed request, before authorization (upstream: `RequestInfo`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestInfo<'a> {
    /// A request for a resource.
    Resource(ResourceRequest),
    /// A request for a non-resource path: discovery, health, metrics.
    NonResource {
        /// `None` for methods such as TRACE.
        verb: Option<HttpVerb>,
        path: Cow<'a, str>,
    },
}

/// A request for a resource, with the attributes that authorization sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRequest {
    /// `None` for methods such as OPTIONS, which only a proxy takes.
    pub verb: Option<ApiVerb>,
    pub target: Target,
    /// The namespace for authorization. For a Namespace object this is its own name.
    pub namespace: String,
    /// The name for authorization: the target's, or the `metadata.name` of the field selector of a list or watch.
    pub name: String,
    /// The field selector of a list or watch, for authorization.
    pub fields: FieldSelector,
    /// Whether the path continues after the subresource.
    pub has_subpath: bool,
}

/// Prefix of the path to the objects of one namespace.
const IN_NAMESPACE: &str = "namespaces/";
/// Subresources of a Namespace: after a namespace's name they are not resources inside it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// Parses a request.
pub fn parse<'a>(method: &Method, path: &'a str, query: &Query<'_>) -> RequestInfo<'a> {
    let path = query::decode(path, false);
    match split_version(&path)
        .and_then(|(group, version, rest)| resource(method, group, version, rest, query))
    {
        Some(resource) => RequestInfo::Resource(resource),
        None => RequestInfo::NonResource {
            verb: http_verb(method),
            path,
        },
    }
}

/// Splits `/api/v1/pods/x` into group, version and the rest; `None` if there is no rest.
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
) -> Option<ResourceRequest> {
    let (legacy_watch, rest) = match rest.strip_prefix("watch/") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (namespace, rest) = split_namespace(rest);
    let mut segments = rest
        .splitn(4, '/')
        .map(|segment| (!segment.is_empty()).then_some(segment));
    let resource = segments.next()??;
    let (name, subresource, has_subpath) = (
        segments.next().flatten(),
        segments.next().flatten(),
        segments.next().is_some(),
    );
    let is_namespace = namespace.is_none() && rest.starts_with(IN_NAMESPACE);
    let target = Target {
        resource: Gvr::new(group, version, resource),
        namespace: namespace.map(Into::into),
        name: name.map(Into::into),
        subresource: subresource.map(Into::into),
    };
    let fields = selected_fields(query);
    let verb = api_verb(method, name.is_some(), legacy_watch, query);
    // The name that a field selector requires is one for authorization only if it restricts what is read.
    let is_read = matches!(verb, Some(ApiVerb::List | ApiVerb::Watch));
    let selected = fields.exact_match("metadata.name").filter(|_| is_read);
    Some(ResourceRequest {
        verb,
        namespace: if is_namespace { name } else { namespace }
            .unwrap_or_default()
            .to_owned(),
        name: name.or(selected).unwrap_or_default().to_owned(),
        fields,
        target,
        has_subpath,
    })
}

/// Splits `namespaces/a/pods` into `a` and `pods`. A Namespace object and its subresources are not split.
fn split_namespace(rest: &str) -> (Option<&str>, &str) {
    let split = rest
        .strip_prefix(IN_NAMESPACE)
        .and_then(|rest| rest.split_once('/'));
    match split {
        Some((namespace, inside)) if !is_namespace_subresource(inside) => (Some(namespace), inside),
        _ => (None, rest),
    }
}

fn is_namespace_subresource(inside: &str) -> bool {
    let first = inside.split('/').next().unwrap_or_default();
    NAMESPACE_SUBRESOURCES.contains(&first)
}

fn api_verb(method: &Method, named: bool, legacy_watch: bool, query: &Query<'_>) -> Option<ApiVerb> {
    Some(match *method {
        Method::GET | Method::HEAD if legacy_watch => ApiVerb::Watch,
        Method::GET | Method::HEAD if named => ApiVerb::Get,
        Method::GET | Method::HEAD if query.flag("watch").unwrap_or_default() => ApiVerb::Watch,
        Method::GET | Method::HEAD => ApiVerb::List,
        Method::POST => ApiVerb::Create,
        Method::PUT => ApiVerb::Update,
        Method::PATCH => ApiVerb::Patch,
        Method::DELETE if named => ApiVerb::Delete,
        Method::DELETE => ApiVerb::DeleteCollection,
        _ => return None,
    })
}

/// The field selector. An invalid one counts as empty here and is rejected when the options are parsed.
fn selected_fields(query: &Query<'_>) -> FieldSelector {
    let selector = query.find("fieldSelector").unwrap_or_default();
    selector.parse().unwrap_or_default()
}

/// The verb of a non-resource request.
fn http_verb(method: &Method) -> Option<HttpVerb> {
    Some(match *method {
        Method::GET => HttpVerb::Get,
        Method::HEAD => HttpVerb::Head,
        Method::POST => HttpVerb::Post,
        Method::PUT => HttpVerb::Put,
        Method::PATCH => HttpVerb::Patch,
        Method::DELETE => HttpVerb::Delete,
        Method::OPTIONS => HttpVerb::Options,
        _ => return None,
    })
}

// === impl RequestInfo ===

impl RequestInfo<'_> {
    /// The verb as RBAC rules and audit events spell it; empty for a method that has none.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Resource(resource) => resource.verb.map_or("", ApiVerb::as_str),
            Self::NonResource { verb, .. } => verb.map_or("", HttpVerb::as_str),
        }
    }

    /// Whether the request is long-running: a watch, or a stream such as exec or proxy.
    pub fn is_long_running(&self) -> bool {
        let Self::Resource(resource) = self else {
            return false;
        };
        let subresource = resource.target.subresource.as_deref();
        resource.verb == Some(ApiVerb::Watch) || subresource.and_then(ConnectKind::find).is_some()
    }

    /// The attributes for authorization.
    pub fn attributes(&self) -> Attributes<'_> {
        let resource = match self {
            Self::NonResource { path, .. } => return Attributes::new(self.verb(), AccessTarget::Path(path)),
            Self::Resource(resource) => resource,
        };
        let object = AccessTarget::Resource {
            group: &resource.target.resource.group,
            resource: &resource.target.resource.resource,
            subresource: resource.target.subresource.as_deref().unwrap_or_default(),
            namespace: &resource.namespace,
            name: &resource.name,
        };
        Attributes {
            version: &resource.target.resource.version,
            fields: Some(&resource.fields),
            ..Attributes::new(self.verb(), object)
        }
    }
}

#[cfg(test)]
mod tests;
