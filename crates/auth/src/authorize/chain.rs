//! [`Chain`]: authorizers that are tried one after the other.

use std::borrow::Cow;
use std::fmt;

use setpoint_api::User;

use super::{Attributes, Authorize, Decision, Masters, PublicPaths, Reason, UserRules};
use crate::maybe_future::{BoxFuture, MaybeFuture};

/// Authorizers that are tried one after the other; the first that has an opinion decides.
///
/// Each has the name under which its reason is reported if no authorizer allows the request.
pub struct Chain(Vec<NamedAuthorizer>);

type NamedAuthorizer = (Cow<'static, str>, Box<dyn Authorize>);

/// The reasons and errors of the authorizers without an opinion.
#[derive(Debug, Default)]
struct Opinions {
    reasons: Vec<String>,
    errors: Vec<String>,
}

/// The authorizers of a server without RBAC.
pub fn without_rbac() -> Chain {
    Chain(vec![
        ("privileged".into(), Box::new(Masters)),
        ("public".into(), Box::new(PublicPaths::always())),
    ])
}

// === impl Chain ===

impl Chain {
    /// A chain with only the privileged group, which comes first whatever else is configured.
    pub fn privileged() -> Self {
        Self(vec![(
            "kubernetes.io/system-privileged-group".into(),
            Box::new(Masters),
        )])
    }

    /// Appends an authorizer.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, authorizer: impl Authorize + 'static) {
        self.0.push((name.into(), Box::new(authorizer)));
    }

    /// Continues with the authorizer at this index, whose decision is pending.
    async fn resume(
        &self,
        at: usize,
        pending: BoxFuture<'_, Decision>,
        mut opinions: Opinions,
        (user, attributes): (&User, &Attributes<'_>),
    ) -> Decision {
        if let Some(decided) = opinions.add(&self.0[at].0, pending.await) {
            return decided;
        }
        for (name, one) in &self.0[at + 1..] {
            let decision = one.authorize(user, attributes).resolve().await;
            if let Some(decided) = opinions.add(name, decision) {
                return decided;
            }
        }
        opinions.into_decision()
    }
}

impl Authorize for Chain {
    fn authorize<'a>(&'a self, user: &'a User, attributes: &'a Attributes<'a>) -> MaybeFuture<'a, Decision> {
        let mut opinions = Opinions::default();
        for (at, (name, one)) in self.0.iter().enumerate() {
            match one.authorize(user, attributes) {
                MaybeFuture::Ready(decision) => {
                    if let Some(decided) = opinions.add(name, decision) {
                        return decided.into();
                    }
                }
                MaybeFuture::Pending(pending) => {
                    return MaybeFuture::pending(self.resume(at, pending, opinions, (user, attributes)));
                }
            }
        }
        opinions.into_decision().into()
    }

    fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        let mut all = UserRules::default();
        for (_, one) in &self.0 {
            all.extend(one.rules_for(user, namespace));
        }
        all
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

// === impl Opinions ===

impl Opinions {
    /// Returns the decision if the authorizer has made one, else keeps its reason.
    fn add(&mut self, name: &str, decision: Decision) -> Option<Decision> {
        match decision {
            Decision::NoOpinion(Reason::None) => None,
            Decision::NoOpinion(Reason::Failed(error)) => {
                self.errors.push(error);
                None
            }
            Decision::NoOpinion(reason) => {
                self.reasons.push(format!("{name}: {reason}"));
                None
            }
            decided => Some(decided),
        }
    }

    fn into_decision(self) -> Decision {
        match (self.errors.is_empty(), self.reasons.is_empty()) {
            (false, _) => Decision::NoOpinion(Reason::Failed(super::rbac::join_unique(self.errors))),
            (true, true) => Decision::NO_OPINION,
            (true, false) => Decision::NoOpinion(self.reasons.join("\n").into()),
        }
    }
}
