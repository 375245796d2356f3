//! How the API server reaches a webhook: by a URL, or through a Service of the cluster.

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

const FORM: &str = "; desired format: https://host[/path]";

/// Validates a webhook's `clientConfig`.
pub(crate) fn validate(client: &FieldRef<'_>) {
    let (url, service) = (client.at(fields::URL), client.at(fields::SERVICE));
    match (url.is_set(), service.is_set()) {
        (true, false) => validate_url(&url),
        (false, true) => validate_service(&service),
        _ => client.required("exactly one of url or service is required"),
    }
}

fn validate_url(url: &FieldRef<'_>) {
    let (rest, fragment) = split(url.str(), '#');
    let (rest, query) = split(rest, '?');
    let (scheme, rest) = rest.split_once(':').unwrap_or(("", rest));
    let scheme = &scheme.to_lowercase();
    let authority = rest.strip_prefix("//").map_or("", |rest| split(rest, '/').0);
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if scheme != "https" {
        url.invalid_as(
            scheme.as_str(),
            &format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    if host.is_empty() {
        url.invalid_as(host, &format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        url.invalid_as(user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        url.invalid_as(fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        url.invalid_as(query, "query parameters are not permitted in the URL");
    }
}

fn split(text: &str, at: char) -> (&str, &str) {
    text.split_once(at).unwrap_or((text, ""))
}

/// A missing namespace is reported at the name and a missing name at the namespace, as Kubernetes does.
fn validate_service(service: &FieldRef<'_>) {
    if service.at(fields::NAMESPACE).is_empty() {
        service.at(fields::NAME).required("");
    }
    if service.at(fields::NAME).is_empty() {
        service.at(fields::NAMESPACE).required("");
    }
    let port = service.at(fields::PORT);
    if !(1..=65535).contains(&port.int()) {
        port.invalid("port is not valid: must be between 1 and 65535, inclusive");
    }
    validate_path(&service.at(fields::PATH));
}

fn validate_path(path: &FieldRef<'_>) {
    let text = path.str();
    match text {
        "" | "/" => return,
        "//" => return path.invalid("segment[0] may not be empty"),
        _ => {}
    }
    if !text.starts_with('/') {
        path.invalid("must start with a '/'");
    }
    // The first byte is skipped whether it is a slash or not, as Kubernetes does.
    let inner = text.get(1..).unwrap_or_default();
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    for (at, segment) in inner.split('/').enumerate() {
        if segment.is_empty() {
            path.invalid(&format!("segment[{at}] may not be empty"));
            continue;
        }
        for why in name::check_dns1123_subdomain(segment) {
            path.invalid(&format!("segment[{at}]: {why}"));
        }
    }
}
