//! Equivalent resources: the same objects in other versions or groups.

use setpoint_registry_api::{Review, kind_of};

use super::MatchedResource;

/// The other resources under which the objects of the request are served, with the same subresource.
pub(super) fn equivalents(review: &Review<'_>) -> Vec<MatchedResource> {
    let requested = review.kind;
    let kinds = review.reader.served_kinds();
    let others = kinds.iter().map(|kind| kind.info()).filter(|info| {
        let has_subresource = |name| info.find_subresource(name).is_some();
        info.storage == requested.storage
            && info.gvr != requested.gvr
            && review.subresource.is_none_or(has_subresource)
    });
    others
        .map(|info| MatchedResource {
            kind: kind_of(info, review.subresource),
            resource: info.gvr.clone(),
        })
        .collect()
}
