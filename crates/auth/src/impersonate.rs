//! Impersonation: acting as another user.
//!
//! There are several modes. Legacy impersonation needs the verb `impersonate` on each attribute of the user. Constrained
//! impersonation is narrower: it needs permission to impersonate such a user and also to make this request as such a
//! user. The constrained modes are tried first; the caller gets the first error.
//!
//! The rules are those of `staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation` in Kubernetes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use setpoint_api::{Status, User};

use crate::authorize::{AccessTarget, Attributes, Authorize, Reason, check, forbidden_with_reason, node};
use crate::service_account;

/// The API group of user attributes in RBAC rules.
const AUTHENTICATION: &str = "authentication.k8s.io";
const NODE_PREFIX: &str = "system:node:";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
/// From this number of checks on, the wildcard permission is checked first.
const WILDCARD_THRESHOLD: usize = 4;

/// The user that the caller wants to impersonate, from the `Impersonate-*` headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedUser {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The impersonated user, and the constraint that allowed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImpersonatedUser {
    pub user: User,
    /// The constraint that allowed it, for the audit log; empty for legacy impersonation.
    pub constraint: &'static str,
}

/// An impersonation mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A service account impersonates the node its pod runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Any user that is neither a node nor a service account.
    UserInfo,
    /// Unconstrained impersonation.
    Legacy,
}

const MODES: [Mode; 5] = [
    Mode::AssociatedNode,
    Mode::ArbitraryNode,
    Mode::ServiceAccount,
    Mode::UserInfo,
    Mode::Legacy,
];

/// The error for the caller.
type BoxedStatus = Box<Status>;

/// The requested user, if the caller may impersonate it for this request.
pub async fn impersonate(
    authorizer: &dyn Authorize,
    caller: &User,
    requested: &RequestedUser,
    attributes: &Attributes<'_>,
) -> Result<ImpersonatedUser, BoxedStatus> {
    if requested.name.is_empty() {
        return Err(Box::new(missing_name(requested)));
    }
    let mut first = None;
    for mode in MODES.into_iter().filter(|mode| mode.applies(requested, caller)) {
        match mode.check(authorizer, caller, requested, attributes).await {
            Ok(()) => return Ok(mode.become_user(requested)),
            Err(status) => first = first.or(Some(status)),
        }
    }
    Err(first.expect("legacy impersonation applies to all users"))
}

/// The error for groups or other attributes without a user name.
fn missing_name(requested: &RequestedUser) -> Status {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let groups = match requested.groups.is_empty() {
        true => "[]string(nil)".to_owned(),
        false => list(&requested.groups),
    };
    let mut extra = "map[string][]string".to_owned();
    if requested.extra.is_empty() {
        extra.push_str("(nil)");
    } else {
        let entries = requested.extra.iter();
        let items: Vec<String> = entries
            .map(|(key, values)| format!("{key:?}:{}", list(values)))
            .collect();
        let _ = write!(extra, "{{{}}}", items.join(", "));
    }
    Status::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{:?}, Groups:{groups}, Extra:{extra}}} without impersonating a \
         user name",
        requested.uid
    ))
}

// === impl Mode ===

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    /// The verb for impersonating such a user.
    fn verb(self) -> &'static str {
        match self {
            Self::AssociatedNode => "impersonate:associated-node",
            Self::ArbitraryNode => "impersonate:arbitrary-node",
            Self::ServiceAccount => "impersonate:serviceaccount",
            Self::UserInfo => "impersonate:user-info",
            Self::Legacy => "impersonate",
        }
    }

    fn applies(self, requested: &RequestedUser, caller: &User) -> bool {
        let only_name = requested.uid.is_empty() && requested.groups.is_empty() && requested.extra.is_empty();
        let (node, account) = (
            node_name(&requested.name),
            service_account::parse(&requested.name),
        );
        match self {
            Self::AssociatedNode => only_name && node.is_some_and(|node| runs_on(caller, node)),
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }

    async fn check(
        self,
        authorizer: &dyn Authorize,
        caller: &User,
        requested: &RequestedUser,
        attributes: &Attributes<'_>,
    ) -> Result<(), BoxedStatus> {
        let checks = Checks {
            authorizer,
            caller: &self.authorizing_user(caller),
            mode: self,
        };
        if self != Self::Legacy {
            let verb = format!("impersonate-on:{}:{}", self.name(), attributes.verb);
            check(
                authorizer,
                checks.caller,
                &Attributes {
                    verb: &verb,
                    ..*attributes
                },
            )
            .await?;
        }
        checks.name(&requested.name).await?;
        checks.uid(&requested.uid).await?;
        checks.groups(&requested.groups).await?;
        checks.extra(&requested.extra).await
    }

    /// The caller as the authorizers see it. For its associated node, the caller's `extra` is reduced to its keys, so that
    /// one rule applies to all nodes.
    fn authorizing_user(self, caller: &User) -> User {
        let mut user = caller.clone();
        if self == Self::AssociatedNode {
            let keys = caller.extra.keys().cloned().collect();
            user.extra = BTreeMap::from([(NODE_KEYS.to_owned(), keys)]);
        }
        user
    }

    fn become_user(self, requested: &RequestedUser) -> ImpersonatedUser {
        let mut groups = requested.groups.clone();
        if let (true, Some((namespace, _))) = (groups.is_empty(), service_account::parse(&requested.name)) {
            groups = service_account::groups(namespace);
        }
        if self != Self::Legacy && node_name(&requested.name).is_some() {
            groups = vec![node::GROUP.to_owned()];
        }
        let has = |group: &str| groups.iter().any(|own| own == group);
        let missing = match requested.name == User::anonymous().name {
            true if !has(User::UNAUTHENTICATED) => Some(User::UNAUTHENTICATED),
            false if !has(User::UNAUTHENTICATED) && !has(User::AUTHENTICATED) => Some(User::AUTHENTICATED),
            _ => None,
        };
        groups.extend(missing.map(str::to_owned));
        ImpersonatedUser {
            user: User {
                name: requested.name.clone(),
                uid: requested.uid.clone(),
                groups,
                extra: requested.extra.clone(),
            },
            constraint: if self == Self::Legacy { "" } else { self.verb() },
        }
    }
}

fn node_name(user: &str) -> Option<&str> {
    let node = user.strip_prefix(NODE_PREFIX)?;
    service_account::is_subdomain(node).then_some(node)
}

/// Whether the caller is a service account of a pod on the node.
fn runs_on(caller: &User, node: &str) -> bool {
    let own = caller.extra.get(NODE_NAME).map(Vec::as_slice);
    service_account::parse(&caller.name).is_some() && matches!(own, Some([own]) if own == node)
}

// === impl Checks ===

/// The permission checks for each attribute of the requested user.
struct Checks<'a> {
    authorizer: &'a dyn Authorize,
    caller: &'a User,
    mode: Mode,
}

impl Checks<'_> {
    async fn name(&self, requested: &str) -> Result<(), BoxedStatus> {
        if let Some((namespace, name)) = service_account::parse(requested) {
            return self
                .require(self.object("serviceaccounts", "", namespace, name))
                .await;
        }
        match (self.mode, node_name(requested)) {
            (Mode::AssociatedNode, Some(_)) => self.require(self.object("nodes", "", "", "*")).await,
            (mode, Some(node)) if mode != Mode::Legacy => {
                self.require(self.object("nodes", "", "", node)).await
            }
            _ => self.require(self.object("users", "", "", requested)).await,
        }
    }

    async fn uid(&self, uid: &str) -> Result<(), BoxedStatus> {
        match uid {
            "" => Ok(()),
            uid => self.require(user_attribute("uids", "", uid)).await,
        }
    }

    async fn groups(&self, groups: &[String]) -> Result<(), BoxedStatus> {
        let constrained = self.mode != Mode::Legacy;
        if constrained && groups.iter().any(String::is_empty) {
            return self.deny(
                self.object("groups", "", "", ""),
                "impersonating the empty string group is not allowed",
            );
        }
        if constrained && groups.iter().any(|group| group == User::MASTERS) {
            return self.deny(
                self.object("groups", "", "", User::MASTERS),
                "impersonating the system:masters group is not allowed",
            );
        }
        if constrained
            && groups.len() >= WILDCARD_THRESHOLD
            && self.require(self.object("groups", "", "", "*")).await.is_ok()
        {
            return Ok(());
        }
        for group in groups {
            self.require(self.object("groups", "", "", group)).await?;
        }
        Ok(())
    }

    async fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), BoxedStatus> {
        if self.mode != Mode::Legacy {
            if let Err(why) = check_extra(extra) {
                return self.deny(user_attribute("userextras", "", ""), why);
            }
            let count: usize = extra.values().map(Vec::len).sum();
            let many = extra.len() >= WILDCARD_THRESHOLD || count >= WILDCARD_THRESHOLD;
            if many && self.require(user_attribute("userextras", "*", "*")).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.require(user_attribute("userextras", key, value)).await?;
            }
        }
        Ok(())
    }

    /// Legacy impersonation has users and groups in the core group, the constrained modes in `authentication.k8s.io`.
    fn object<'b>(
        &self,
        resource: &'b str,
        subresource: &'b str,
        namespace: &'b str,
        name: &'b str,
    ) -> AccessTarget<'b> {
        let group = if self.mode == Mode::Legacy {
            ""
        } else {
            AUTHENTICATION
        };
        AccessTarget::Resource {
            group,
            resource,
            subresource,
            namespace,
            name,
        }
    }

    async fn require(&self, object: AccessTarget<'_>) -> Result<(), BoxedStatus> {
        check(
            self.authorizer,
            self.caller,
            &Attributes::new(self.mode.verb(), object),
        )
        .await
    }

    fn deny(&self, object: AccessTarget<'_>, why: &'static str) -> Result<(), BoxedStatus> {
        let attributes = Attributes::new(self.mode.verb(), object);
        Err(Box::new(forbidden_with_reason(
            self.caller,
            &attributes,
            &Reason::from(why),
        )))
    }
}

fn user_attribute<'a>(resource: &'a str, subresource: &'a str, name: &'a str) -> AccessTarget<'a> {
    AccessTarget::Resource {
        group: AUTHENTICATION,
        resource,
        subresource,
        namespace: "",
        name,
    }
}

fn check_extra(extra: &BTreeMap<String, Vec<String>>) -> Result<(), &'static str> {
    for (key, values) in extra {
        if key.is_empty() {
            return Err("impersonating the empty string key in extra is not allowed");
        }
        if values.is_empty() {
            return Err("impersonating empty values in extra is not allowed");
        }
        if values.iter().any(String::is_empty) {
            return Err("impersonating the empty string value in extra is not allowed");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
