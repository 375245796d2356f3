//! Views of FlowSchemas and PriorityLevelConfigurations, with the mandatory ones.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use setpoint_api::Stored;

/// The name of the mandatory FlowSchema and of its PriorityLevelConfiguration whose requests are not limited.
pub(crate) const EXEMPT: &str = "exempt";
/// The name of the mandatory FlowSchema that matches every request, and of its PriorityLevelConfiguration.
pub(crate) const CATCH_ALL: &str = "catch-all";

/// Either object with its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object<S> {
    pub name: String,
    /// Empty for a mandatory object that is not stored.
    pub uid: String,
    pub spec: S,
}

pub(crate) type FlowSchemaObject = Object<FlowSchemaSpec>;
pub(crate) type PriorityLevelObject = Object<PriorityLevelSpec>;

#[derive(Deserialize)]
struct WithSpec<S> {
    spec: S,
}

/// The spec of a FlowSchema.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FlowSchemaSpec {
    #[serde(default)]
    pub priority_level_configuration: LevelReference,
    #[serde(default)]
    pub matching_precedence: i32,
    pub distinguisher_method: Option<DistinguisherMethod>,
    #[serde(default)]
    pub rules: Option<Vec<Rule>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct LevelReference {
    pub name: String,
}

/// What distinguishes the flows of a FlowSchema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum DistinguisherMethod {
    ByUser,
    ByNamespace,
}

/// Subjects and the requests of theirs that match.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rule {
    #[serde(default)]
    pub subjects: Vec<Subject>,
    #[serde(default)]
    pub resource_rules: Vec<ResourceRule>,
    #[serde(default)]
    pub non_resource_rules: Vec<NonResourceRule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind")]
pub(crate) enum Subject {
    User {
        user: SubjectName,
    },
    Group {
        group: SubjectName,
    },
    ServiceAccount {
        #[serde(rename = "serviceAccount")]
        service_account: AccountName,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct SubjectName {
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct AccountName {
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceRule {
    pub verbs: Vec<String>,
    pub api_groups: Vec<String>,
    pub resources: Vec<String>,
    pub cluster_scope: bool,
    pub namespaces: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NonResourceRule {
    pub verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    pub non_resource_urls: Vec<String>,
}

/// The spec of a PriorityLevelConfiguration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum PriorityLevelSpec {
    Exempt {
        #[serde(default)]
        exempt: ExemptSpec,
    },
    Limited {
        limited: LimitedSpec,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ExemptSpec {
    pub nominal_concurrency_shares: Option<u32>,
    pub lendable_percent: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitedSpec {
    pub nominal_concurrency_shares: Option<u32>,
    pub lendable_percent: Option<u32>,
    pub borrowing_limit_percent: Option<u32>,
    pub limit_response: LimitResponseSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum LimitResponseSpec {
    Reject,
    Queue { queuing: QueuingSpec },
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueuingSpec {
    pub queues: usize,
    pub hand_size: usize,
    pub queue_length_limit: usize,
}

/// Default of `nominalConcurrencyShares` of a limited level.
const DEFAULT_SHARES: u32 = 30;

// === impl Object ===

impl<S: DeserializeOwned + Clone + Send + Sync + 'static> Object<S> {
    /// Decodes a stored object: once for all clusters that share it. One that is malformed counts as absent.
    pub(crate) fn decode(object: &Stored) -> Option<Self> {
        let decoded = object.view::<WithSpec<S>>().ok()?;
        Some(Self {
            name: object.key().name().to_owned(),
            uid: object.header().uid.as_str().to_owned(),
            spec: decoded.spec.clone(),
        })
    }
}

impl FlowSchemaObject {
    /// The mandatory FlowSchema for the administrators' group.
    pub(crate) fn mandatory_exempt() -> Self {
        Self::matching_all(EXEMPT, 1, None, &[setpoint_api::User::MASTERS])
    }

    /// The mandatory FlowSchema for all users.
    pub(crate) fn mandatory_catch_all() -> Self {
        let all = [
            setpoint_api::User::UNAUTHENTICATED,
            setpoint_api::User::AUTHENTICATED,
        ];
        Self::matching_all(CATCH_ALL, 10_000, Some(DistinguisherMethod::ByUser), &all)
    }

    /// A FlowSchema for all requests of these groups, of the level with the same name.
    fn matching_all(
        name: &str,
        matching_precedence: i32,
        distinguisher_method: Option<DistinguisherMethod>,
        groups: &[&str],
    ) -> Self {
        let all = || vec!["*".to_owned()];
        let group = |name: &&str| Subject::Group {
            group: SubjectName {
                name: (*name).to_owned(),
            },
        };
        let rule = Rule {
            subjects: groups.iter().map(group).collect(),
            resource_rules: vec![ResourceRule {
                verbs: all(),
                api_groups: all(),
                resources: all(),
                cluster_scope: true,
                namespaces: all(),
            }],
            non_resource_rules: vec![NonResourceRule {
                verbs: all(),
                non_resource_urls: all(),
            }],
        };
        Self {
            name: name.to_owned(),
            uid: String::new(),
            spec: FlowSchemaSpec {
                priority_level_configuration: LevelReference {
                    name: name.to_owned(),
                },
                matching_precedence,
                distinguisher_method,
                rules: Some(vec![rule]),
            },
        }
    }
}

impl PriorityLevelObject {
    pub(crate) fn mandatory_exempt() -> Self {
        Self {
            name: EXEMPT.to_owned(),
            uid: String::new(),
            spec: PriorityLevelSpec::Exempt {
                exempt: ExemptSpec::default(),
            },
        }
    }

    pub(crate) fn mandatory_catch_all() -> Self {
        Self {
            name: CATCH_ALL.to_owned(),
            uid: String::new(),
            spec: PriorityLevelSpec::Limited {
                limited: LimitedSpec {
                    nominal_concurrency_shares: Some(5),
                    lendable_percent: Some(0),
                    borrowing_limit_percent: None,
                    limit_response: LimitResponseSpec::Reject,
                },
            },
        }
    }

    /// Whether the name and the type agree: only the level `exempt` is exempt.
    pub(crate) fn is_consistent(&self) -> bool {
        self.spec.is_exempt() == (self.name == EXEMPT)
    }
}

// === impl PriorityLevelSpec ===

impl PriorityLevelSpec {
    pub(crate) fn is_exempt(&self) -> bool {
        matches!(self, Self::Exempt { .. })
    }

    pub(crate) fn shares(&self) -> u32 {
        match self {
            Self::Exempt { exempt } => exempt.nominal_concurrency_shares.unwrap_or_default(),
            Self::Limited { limited } => limited.nominal_concurrency_shares.unwrap_or(DEFAULT_SHARES),
        }
    }

    pub(crate) fn lendable_percent(&self) -> u32 {
        match self {
            Self::Exempt { exempt } => exempt.lendable_percent,
            Self::Limited { limited } => limited.lendable_percent,
        }
        .unwrap_or_default()
    }

    /// `None` if the level may borrow any number of seats.
    pub(crate) fn borrowing_limit_percent(&self) -> Option<u32> {
        match self {
            Self::Exempt { .. } => None,
            Self::Limited { limited } => limited.borrowing_limit_percent,
        }
    }

    pub(crate) fn queuing(&self) -> Option<&QueuingSpec> {
        match self {
            Self::Limited { limited } => match &limited.limit_response {
                LimitResponseSpec::Queue { queuing } => Some(queuing),
                LimitResponseSpec::Reject => None,
            },
            Self::Exempt { .. } => None,
        }
    }
}
