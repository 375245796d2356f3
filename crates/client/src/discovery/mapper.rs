//! [`Mapper`]: from a kind, or from what a user typed, to a resource.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::{Clock, Gvk, Status};

use super::{ApiResource, Known, discover};
use crate::http::Http;

/// Knows what a server serves and asks it again when something is not known. Cloning shares what is known.
#[derive(Clone)]
pub struct Mapper {
    http: Http,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    known: Known,
    asked_at: Option<Timestamp>,
}

/// What is not known is not asked for again so soon: somebody may look for it in a loop.
const PATIENCE: Duration = Duration::from_secs(1);

impl Mapper {
    /// Nothing is known and nothing asked yet.
    pub fn new(http: Http, clock: Arc<dyn Clock>) -> Self {
        let state = Arc::default();
        Self { http, clock, state }
    }

    /// The resource of a kind.
    pub async fn resource_of(&self, gvk: &Gvk) -> Result<ApiResource, Status> {
        let found = self
            .look_up(|known| known.iter().find(|own| own.gvk == *gvk).cloned())
            .await?;
        found.ok_or_else(|| {
            Status::bad_request(format!(
                "no matches for kind {:?} in version {:?}",
                gvk.kind.as_str(),
                gvk.api_version().as_str()
            ))
        })
    }

    /// The resource that a user means by a word: its plural, singular, short name or kind, with the group or version
    /// and group behind it if there could be a doubt. `deploy`, `deployments.apps` and `deployments.v1.apps` are one.
    pub async fn find(&self, word: &str) -> Result<ApiResource, Status> {
        let found = self.look_up(|known| meant(known, word)).await?;
        found.ok_or_else(|| Status::bad_request(format!("the server doesn't have a resource type {word:?}")))
    }

    /// Everything that is served.
    pub async fn all(&self) -> Result<Vec<ApiResource>, Status> {
        let known = self.known().await?;
        Ok(known.to_vec())
    }

    /// Forgets what is known, so that the next question goes to the server.
    pub fn forget(&self) {
        *self.state.lock() = State::default();
    }

    async fn look_up<T>(&self, find: impl Fn(&[ApiResource]) -> Option<T>) -> Result<Option<T>, Status> {
        if let Some(found) = find(&self.known().await?) {
            return Ok(Some(found));
        }
        if !self.may_ask_again() {
            return Ok(None);
        }
        Ok(find(&self.ask().await?))
    }

    async fn known(&self) -> Result<Known, Status> {
        let known = {
            let state = self.state.lock();
            state.asked_at.map(|_| state.known.clone())
        };
        match known {
            Some(known) => Ok(known),
            None => self.ask().await,
        }
    }

    fn may_ask_again(&self) -> bool {
        let asked_at = self.state.lock().asked_at;
        asked_at.is_none_or(|at| self.clock.now().duration_since(at).unsigned_abs() >= PATIENCE)
    }

    async fn ask(&self) -> Result<Known, Status> {
        let known: Known = discover(&self.http).await?.into();
        *self.state.lock() = State {
            known: known.clone(),
            asked_at: Some(self.clock.now()),
        };
        Ok(known)
    }
}

impl fmt::Debug for Mapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.state.lock().known.len();
        write!(f, "Mapper({known} resources)")
    }
}

/// What the word means: exact names before short ones, and of several groups or versions the one the server prefers.
fn meant(known: &[ApiResource], word: &str) -> Option<ApiResource> {
    let word = word.to_lowercase();
    let (name, rest) = word.split_once('.').unwrap_or((&word, ""));
    let fits = |resource: &ApiResource| {
        let (group, version) = (resource.gvr.group.as_str(), resource.gvr.version.as_str());
        let versioned = rest.split_once('.').unwrap_or((rest, ""));
        rest.is_empty() || rest == group || versioned == (version, group)
    };
    let named = |resource: &ApiResource| {
        let kind = resource.gvk.kind.to_lowercase();
        resource.gvr.resource == name || resource.singular == name || kind == name
    };
    let short = |resource: &ApiResource| resource.short_names.iter().any(|own| own == name);
    let mut fitting = known.iter().filter(|resource| fits(resource));
    let exact = fitting.clone().find(|resource| named(resource));
    exact
        .or_else(|| fitting.find(|resource| short(resource)))
        .cloned()
}

#[cfg(test)]
mod tests {
    use setpoint_api::Gvr;

    use super::*;

    fn resource(group: &str, version: &str, plural: &str, kind: &str, short: &str) -> ApiResource {
        ApiResource {
            gvr: Gvr::new(group, version, plural),
            gvk: Gvk::new(group, version, kind),
            namespaced: true,
            singular: kind.to_lowercase().into(),
            short_names: vec![short.into()],
            categories: Vec::new(),
            verbs: Vec::new(),
            subresources: Vec::new(),
        }
    }

    #[track_caller]
    fn check(word: &str, expected: &str) {
        let known = [
            resource("", "v1", "events", "Event", "ev"),
            resource("apps", "v1", "deployments", "Deployment", "deploy"),
            resource("apps", "v1beta1", "deployments", "Deployment", "deploy"),
            resource("events.k8s.io", "v1", "events", "Event", "ev"),
            resource("x.io", "v1", "deploys", "Deploy", "pods"),
        ];
        let found = meant(&known, word);
        let shown = found.map_or("nothing".to_owned(), |found| {
            format!("{} {}", found.gvr.api_version(), found.gvr.resource)
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_word_means_what_kubectl_takes_it_for() {
        for word in [
            "deployments",
            "deployment",
            "Deployment",
            "deployments.apps",
            "deployments.v1.apps",
        ] {
            check(word, "apps/v1 deployments");
        }
        check("deployments.v1beta1.apps", "apps/v1beta1 deployments");
        check("ev", "v1 events");
        check("events.events.k8s.io", "events.k8s.io/v1 events");
        check("deploy", "x.io/v1 deploys");
        check("deploy.apps", "apps/v1 deployments");
        check("nonsense", "nothing");
        check("deployments.other", "nothing");
    }
}
