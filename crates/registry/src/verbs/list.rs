//! List: the objects of a resource at one revision, all of them or page by page.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::call::Body;
use setpoint_api::field::Errors;
use setpoint_api::options::{ListOptions, ResourceVersionMatch};
use setpoint_api::selector::{FieldSelector, LabelSelector, selects};
use setpoint_api::{Gvk, Key, List, ResourceVersion, Response, Status, Stored};
use setpoint_cache::Snapshot;
use setpoint_schema::fields;
use setpoint_store::Record;

use crate::conversion;
use crate::large_requests::LARGE_OBJECTS;
use crate::page::Page;
use crate::request_context::RequestContext;
use crate::{error, key};

/// How long a read waits for a resource version in the future.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// Lists the objects that the options select.
pub(crate) async fn list(context: &RequestContext<'_>, options: ListOptions) -> Result<Response, Status> {
    Ok(Response::new(Body::List(collect(context, &options).await?)))
}

/// Collects the objects of a list.
pub(crate) async fn collect(context: &RequestContext<'_>, options: &ListOptions) -> Result<List, Status> {
    check_options(options)?;
    check_fields(context, &options.fields)?;
    let renamed;
    let options = if options.fields.is_empty() {
        options
    } else {
        renamed = ListOptions {
            fields: options
                .fields
                .rename_fields(|label| context.kind_info().stored_label(label)),
            ..options.clone()
        };
        &renamed
    };
    let page = options
        .continue_token
        .as_deref()
        .map(Page::from_token)
        .transpose()?;
    let exact = match &page {
        Some(page) => page.version,
        None => exact_version(options),
    };
    let selects_converted = conversion::selects_converted(context, &options.labels, &options.fields);
    if selects_converted || context.kind.webhook_conversion().is_some() {
        return Box::pin(collect_converted(
            context,
            options,
            (page, exact),
            selects_converted,
        ))
        .await;
    }
    collect_stored(context, options, page.as_ref(), exact).await
}

/// Collects the objects of a list as they are stored.
async fn collect_stored(
    context: &RequestContext<'_>,
    options: &ListOptions,
    page: Option<&Page>,
    exact: Option<ResourceVersion>,
) -> Result<List, Status> {
    match options.resource_version {
        _ if exact.is_some() => {}
        Some(ResourceVersion::ZERO) => {}
        Some(version) if page.is_none() => wait_for(context, version).await?,
        _ => wait_until_fresh(context).await,
    }
    check_decodable(context, &options.fields, page)?;
    let snapshot = context.resource.cache.snapshot();
    let is_large = is_large_selection(snapshot.len(), options);
    let select = move || match exact {
        Some(version) => list_from_store(context, options, version, page),
        None => list_from_cache(context, options, page, &snapshot),
    };
    let list = match is_large {
        true => context.registry.large_requests.run(async { select() }).await?,
        false => select()?,
    };
    // A value that was written meanwhile counts, too.
    check_decodable(context, &options.fields, page)?;
    Ok(list)
}

/// Fails if an object in the range of the list cannot be decoded, as upstream: the list would lack it, and a controller
/// that reads that an object is absent deletes what it owns.
pub(crate) fn check_decodable(
    context: &RequestContext<'_>,
    fields: &FieldSelector,
    page: Option<&Page>,
) -> Result<(), Status> {
    let store = &context.backend().store;
    if !store.is_replica() {
        return Ok(());
    }
    let prefix = &context.resource.prefix;
    let start = start_of(context, page);
    let (start, end) = match (context.namespace(), fields.exact_match("metadata.name")) {
        (namespace, Some(name)) if !namespace.is_empty() || !context.kind_info().is_namespaced() => {
            let key = format!("{prefix}{}", Key::new(namespace, name));
            let end = format!("{key}\0");
            (key, end)
        }
        ("", _) => (format!("{prefix}{start}"), key::prefix_end(prefix)),
        (namespace, _) => (
            format!("{prefix}{start}"),
            key::prefix_end(&format!("{prefix}{namespace}/")),
        ),
    };
    let decodable = store.check_range_decodable(start.as_bytes()..end.as_bytes());
    decodable.map_err(|failed| match failed {
        setpoint_store::Error::Undecodable { key, reason } => {
            let key = String::from_utf8_lossy(&key);
            Status::internal(format!("unable to transform key {key:?}: {reason}"))
        }
        other => error::from_store(other),
    })
}

/// Collects the objects of a list in the version of the request. If the selectors apply to that version, more objects
/// have to be converted than the list has.
async fn collect_converted(
    context: &RequestContext<'_>,
    options: &ListOptions,
    (page, exact): (Option<Page>, Option<ResourceVersion>),
    selects_converted: bool,
) -> Result<List, Status> {
    if !selects_converted {
        let mut list = collect_stored(context, options, page.as_ref(), exact).await?;
        list.items = conversion::convert_listed(context, &list.items).await?;
        return Ok(list);
    }
    let all = ListOptions {
        labels: LabelSelector::default(),
        fields: options.fields.only_metadata(),
        limit: None,
        ..options.clone()
    };
    let all = collect_stored(context, &all, page.as_ref(), exact).await?;
    let returns_converted = context.kind.webhook_conversion().is_some();
    let mut chunk = Chunk {
        items: Vec::new(),
        remaining: RemainingItems::None,
    };
    'list: for objects in all.items.chunks(conversion::CONVERTED_OBJECTS) {
        let converted = conversion::convert_listed(context, objects).await?;
        for (object, converted) in objects.iter().zip(converted) {
            if !selects(&options.labels, &options.fields, &converted) {
                continue;
            }
            if chunk.items.len() == limit(options) {
                chunk.remaining = RemainingItems::Some;
                break 'list;
            }
            // Other kinds convert the response themselves.
            chunk.items.push(match returns_converted {
                true => converted,
                false => object.clone(),
            });
        }
    }
    Ok(chunk.into_list(context, all.resource_version))
}

/// The version that must be matched exactly: by `resourceVersionMatch`, or since the list is paginated.
fn exact_version(options: &ListOptions) -> Option<ResourceVersion> {
    let version = options.resource_version?;
    match options.resource_version_match {
        Some(ResourceVersionMatch::Exact) => Some(version),
        Some(ResourceVersionMatch::NotOlderThan) => None,
        None => (options.limit.is_some() && version != ResourceVersion::ZERO).then_some(version),
    }
}

/// Lists from the cache. A field selector that pins the name or the namespace narrows the range.
fn list_from_cache(
    context: &RequestContext<'_>,
    options: &ListOptions,
    page: Option<&Page>,
    snapshot: &Snapshot,
) -> Result<List, Status> {
    let fields = &options.fields;
    let pinned = fields.exact_match("metadata.namespace").unwrap_or_default();
    let namespace = match context.namespace() {
        "" if context.kind_info().is_namespaced() => pinned,
        own => own,
    };
    let start = Key::new("", &start_of(context, page));
    let chunk = match fields.exact_match("metadata.name") {
        Some(name) if !namespace.is_empty() || !context.kind_info().is_namespaced() => {
            let found = snapshot.find(&Key::new(namespace, name));
            take_chunk(options, found.into_iter(), |object| Ok(object.clone()))
        }
        _ if namespace.is_empty() => take_chunk(options, snapshot.from(&start), |object| Ok(object.clone())),
        _ => {
            let objects = snapshot.in_namespace_from(namespace, &start);
            take_chunk(options, objects, |object| Ok(object.clone()))
        }
    };
    Ok(chunk?.into_list(context, snapshot.version))
}

/// Whether the selection takes long: every requirement is compared with every object.
fn is_large_selection(objects: usize, options: &ListOptions) -> bool {
    let requirements = options.labels.requirements.len() + options.fields.fields().count();
    objects.saturating_mul(requirements.max(1)) > LARGE_OBJECTS
}

/// Lists from the store at a version, back to the last compaction.
fn list_from_store(
    context: &RequestContext<'_>,
    options: &ListOptions,
    version: ResourceVersion,
    page: Option<&Page>,
) -> Result<List, Status> {
    let snapshot = context
        .backend()
        .store
        .snapshot_at(key::revision(version))
        .map_err(|failed| expired(failed, page))?;
    let prefix = &context.resource.prefix;
    let start = format!("{prefix}{}", start_of(context, page));
    let end = match context.namespace() {
        "" => key::prefix_end(prefix),
        namespace => key::prefix_end(&format!("{prefix}{namespace}/")),
    };
    let records = snapshot.range((Bound::Included(start.as_bytes()), Bound::Excluded(end.as_bytes())));
    let object = |record: Arc<Record>| context.resource.decode_for_list(&record);
    Ok(take_chunk(options, records, object)?.into_list(context, version))
}

/// The key at which the list starts, without the prefix of the resource.
fn start_of(context: &RequestContext<'_>, page: Option<&Page>) -> String {
    let start = page.map_or("", |page| page.start.as_str());
    match context.namespace() {
        "" => start.to_owned(),
        namespace => format!("{namespace}/{start}"),
    }
}

/// The error for a compacted version. For a page it contains a token to continue with the current objects.
fn expired(failed: setpoint_store::Error, page: Option<&Page>) -> Status {
    let (setpoint_store::Error::Compacted { .. }, Some(page)) = (&failed, page) else {
        return error::from_store(failed);
    };
    let fresh = Page {
        version: None,
        start: page.start.clone(),
    };
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.metadata.continue_token = fresh.to_token();
    status
}

/// One page of a list.
struct Chunk {
    items: Vec<Arc<Stored>>,
    /// How many objects follow: an exact number without selectors, else only whether any does.
    remaining: RemainingItems,
}

enum RemainingItems {
    None,
    Some,
    Exactly(u64),
}

/// Selects from the objects in order, up to the limit. Objects after the page are counted but not decoded.
fn take_chunk<R>(
    options: &ListOptions,
    mut rest: impl Iterator<Item = R>,
    object: impl Fn(R) -> Result<Arc<Stored>, Status>,
) -> Result<Chunk, Status> {
    let limit = limit(options);
    let all = options.labels.is_empty() && options.fields.is_empty();
    let mut items = Vec::new();
    while let Some(next) = rest.next() {
        if all && items.len() == limit {
            let remaining = RemainingItems::Exactly(1 + rest.count() as u64);
            return Ok(Chunk { items, remaining });
        }
        let object = object(next)?;
        if !all && !selects(&options.labels, &options.fields, &object) {
            continue;
        }
        if items.len() == limit {
            return Ok(Chunk {
                items,
                remaining: RemainingItems::Some,
            });
        }
        items.push(object);
    }
    Ok(Chunk {
        items,
        remaining: RemainingItems::None,
    })
}

/// The size of the page. A list with `resourceVersion=0` is not paginated.
fn limit(options: &ListOptions) -> usize {
    match options.limit {
        None | Some(0) => usize::MAX,
        _ if options.resource_version == Some(ResourceVersion::ZERO) => usize::MAX,
        Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
    }
}

impl Chunk {
    fn into_list(self, context: &RequestContext<'_>, version: ResourceVersion) -> List {
        let mut list = List {
            items: self.items,
            resource_version: version,
            ..List::default()
        };
        if matches!(self.remaining, RemainingItems::None) {
            return list;
        }
        let last = list.items.last().map(|last| relative_key(context, last.key()));
        list.continue_token = last.map(|last| Page::after(version, &last).to_token());
        if let RemainingItems::Exactly(count) = self.remaining {
            list.remaining_item_count = Some(count);
        }
        list
    }
}

/// The key in a continue token: relative to the namespace of the list.
fn relative_key(context: &RequestContext<'_>, key: &Key) -> String {
    match context.namespace() {
        "" => key.as_str().to_owned(),
        _ => key.name().to_owned(),
    }
}

/// Waits until the cache has reached the store's current revision.
pub(crate) async fn wait_until_fresh(context: &RequestContext<'_>) {
    let now = context.backend().newest();
    context.resource.cache.reached(now).await;
}

/// Waits for a version that may be in the future, up to [`BLOCK_TIMEOUT`].
pub(crate) async fn wait_for(context: &RequestContext<'_>, version: ResourceVersion) -> Result<(), Status> {
    tokio::select! {
        biased;
        () = context.resource.cache.reached(version) => Ok(()),
        () = context.registry.clock.sleep(BLOCK_TIMEOUT) => {
            let current = context.backend().newest();
            Err(Status::too_large_resource_version(version, current))
        }
    }
}

/// Rejects field selectors that the kind does not support.
pub(crate) fn check_fields(context: &RequestContext<'_>, fields: &FieldSelector) -> Result<(), Status> {
    for label in fields.fields() {
        context
            .kind_info()
            .check_field(label)
            .map_err(Status::bad_request)?;
    }
    Ok(())
}

fn check_options(options: &ListOptions) -> Result<(), Status> {
    let errors = Errors::default();
    let at = errors.at(fields::RESOURCE_VERSION_MATCH);
    if options.resource_version_match.is_some() {
        if options.resource_version.is_none() {
            at.forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if options.continue_token.is_some() {
            at.forbidden("resourceVersionMatch is forbidden when continue is provided");
        }
    }
    let zero = options.resource_version == Some(ResourceVersion::ZERO);
    if options.resource_version_match == Some(ResourceVersionMatch::Exact) && zero {
        at.forbidden(r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#);
    }
    reject_options(errors)?;
    if options.continue_token.is_some() && options.resource_version.is_some_and(|_| !zero) {
        return Err(Status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    Ok(())
}

/// Turns the errors of the options into one status.
pub(crate) fn reject_options(errors: Errors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let subject = Gvk::new("meta.k8s.io", "v1", "ListOptions");
    Err(Status::invalid(&subject, "", &errors.into_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(objects: usize, labels: &str, fields: &str, expected: bool) {
        let options = ListOptions {
            labels: labels.parse().unwrap(),
            fields: fields.parse().unwrap(),
            ..ListOptions::default()
        };
        assert_eq!(is_large_selection(objects, &options), expected);
    }

    #[test]
    fn a_selection_is_large_by_its_objects_and_requirements() {
        check(10_000, "", "", false);
        check(10_001, "", "", true);
        check(5_000, "a,b", "", false);
        check(5_000, "a,b,c", "", true);
        check(5_000, "a,b", "spec.x=1", true);
    }
}
