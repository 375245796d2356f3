//! [`Configuration`]: the FlowSchemas and priority levels in force, compiled from their objects.
//!
//! A configuration is immutable and replaced as a whole; requests read it without a lock. The levels in it continue to
//! exist from one configuration to the next, with their waiting and executing requests. One whose object was deleted
//! stays, without a FlowSchema, until it is idle ("quiescing").
//!
//! The rules are those of `lockAndDigestConfigObjects` in Kubernetes'
//! `apiserver/pkg/util/flowcontrol/apf_controller.go`.

use std::sync::Arc;

use http::HeaderValue;
use setpoint_api::{Clock, User};
use setpoint_auth::authorize::Attributes;
use tokio::sync::Notify;

use super::borrowing::Limits;
use super::level::Level;
use super::matching;
use super::objects::{
    CATCH_ALL, DistinguisherMethod, EXEMPT, FlowSchemaObject, PriorityLevelObject, PriorityLevelSpec, Rule,
};
use super::queue_set::{LimitResponse, QueuingConfig};
use super::shuffle_sharding::Dealer;

/// A request takes at most this share of a level's seats.
const MAX_SEATS_PERCENT: usize = 15;

/// The FlowSchemas and levels in force.
#[derive(Debug)]
pub(crate) struct Configuration {
    /// In matching order; the last one is `catch-all`.
    pub flow_schemas: Vec<Arc<FlowSchema>>,
    /// By name, quiescing ones included.
    pub levels: Vec<LevelConfiguration>,
}

/// A FlowSchema, compiled.
#[derive(Debug)]
pub(crate) struct FlowSchema {
    pub name: String,
    pub level: Arc<Level>,
    pub is_exempt: bool,
    /// Slot in the metrics of the level.
    pub slot: usize,
    /// What distinguishes its flows; `None` if the level has no queues to keep them apart.
    pub distinguisher: Option<DistinguisherMethod>,
    /// The most seats that a request may take; `None` without queues.
    pub max_seats: Option<usize>,
    /// The UIDs of the FlowSchema and its level; `None` if it is not stored.
    pub uids: Option<(HeaderValue, HeaderValue)>,
    rules: Vec<Rule>,
}

/// A level and its configured limits.
#[derive(Debug, Clone)]
pub(crate) struct LevelConfiguration {
    pub level: Arc<Level>,
    pub object: PriorityLevelObject,
    pub response: LimitResponse,
    pub limits: Limits,
}

/// What levels are made with.
#[derive(Debug)]
pub(crate) struct LevelFactory {
    /// The seats of the server.
    pub seats: usize,
    pub clock: Arc<dyn Clock>,
    pub wake: Arc<Notify>,
}

// === impl Configuration ===

impl Configuration {
    /// Compiles the objects. Levels of the previous configuration are taken over.
    pub(crate) fn compile(
        flow_schemas: &[FlowSchemaObject],
        levels: &[PriorityLevelObject],
        previous: &[LevelConfiguration],
        factory: &LevelFactory,
    ) -> Self {
        let mut compiled: Vec<LevelConfiguration> = levels
            .iter()
            .filter_map(|object| LevelConfiguration::compile(object, previous, factory))
            .collect();
        add_mandatory_levels(&mut compiled, previous, factory);
        compiled.iter().for_each(|one| one.level.set_quiescing(false));
        // Schemas refer to configured levels only; those that are still draining come after them.
        let schema_levels = compiled.len();
        compiled.extend(draining(&compiled, previous));
        set_limits(&mut compiled, factory.seats);
        let flow_schemas = compile_flow_schemas(flow_schemas, &compiled[..schema_levels]);
        compiled.sort_by(|one, other| one.object.name.cmp(&other.object.name));
        Self {
            flow_schemas,
            levels: compiled,
        }
    }

    /// The FlowSchema of a request: the first that matches.
    pub(crate) fn classify(&self, user: &User, attributes: &Attributes<'_>) -> &Arc<FlowSchema> {
        let matched = self
            .flow_schemas
            .iter()
            .find(|schema| matching::matches(&schema.rules, user, attributes));
        let last = self.flow_schemas.last();
        matched.or(last).expect("the mandatory FlowSchemas always exist")
    }
}

fn add_mandatory_levels(
    compiled: &mut Vec<LevelConfiguration>,
    previous: &[LevelConfiguration],
    factory: &LevelFactory,
) {
    for object in [
        PriorityLevelObject::mandatory_exempt(),
        PriorityLevelObject::mandatory_catch_all(),
    ] {
        if !compiled.iter().any(|one| one.object.name == object.name) {
            compiled.extend(LevelConfiguration::compile(&object, previous, factory));
        }
    }
}

/// The levels that are no longer configured and still have requests.
fn draining(compiled: &[LevelConfiguration], previous: &[LevelConfiguration]) -> Vec<LevelConfiguration> {
    let is_configured =
        |level: &LevelConfiguration| compiled.iter().any(|one| one.object.name == level.object.name);
    let removed = previous.iter().filter(|level| !is_configured(level));
    let draining = removed.filter(|level| {
        // In this order: a request that ends after the look at it notifies the filter's task.
        level.level.set_quiescing(true);
        !level.level.is_idle()
    });
    draining.cloned().collect()
}

/// Divides the seats among all levels by their shares.
fn set_limits(levels: &mut [LevelConfiguration], seats: usize) {
    let shares: usize = levels.iter().map(|one| one.object.spec.shares() as usize).sum();
    for level in levels {
        level.limits = limits(&level.object.spec, seats, shares);
    }
}

fn limits(spec: &PriorityLevelSpec, seats: usize, all_shares: usize) -> Limits {
    let nominal = (seats * spec.shares() as usize).div_ceil(all_shares.max(1));
    let percent = |percent: u32| (nominal * percent as usize + 50) / 100;
    Limits {
        nominal,
        lower: nominal.saturating_sub(percent(spec.lendable_percent())),
        upper: nominal + spec.borrowing_limit_percent().map_or(seats, percent),
    }
}

/// The FlowSchemas whose level exists, in matching order, and the mandatory ones.
fn compile_flow_schemas(objects: &[FlowSchemaObject], levels: &[LevelConfiguration]) -> Vec<Arc<FlowSchema>> {
    let mut objects: Vec<&FlowSchemaObject> = objects
        .iter()
        .filter(|object| find_level(levels, object).is_some())
        .collect();
    objects.sort_by_key(|object| (object.spec.matching_precedence, &object.name));
    let (exempt, catch_all) = (
        FlowSchemaObject::mandatory_exempt(),
        FlowSchemaObject::mandatory_catch_all(),
    );
    if !objects.iter().any(|object| object.name == EXEMPT) {
        objects.insert(0, &exempt);
    }
    if !objects.iter().any(|object| object.name == CATCH_ALL) {
        objects.push(&catch_all);
    }
    let compiled = objects
        .into_iter()
        .filter_map(|object| Some(Arc::new(FlowSchema::compile(object, find_level(levels, object)?))));
    compiled.collect()
}

fn find_level<'a>(
    levels: &'a [LevelConfiguration],
    schema: &FlowSchemaObject,
) -> Option<&'a LevelConfiguration> {
    let name = &schema.spec.priority_level_configuration.name;
    levels.iter().find(|level| level.object.name == *name)
}

// === impl FlowSchema ===

impl FlowSchema {
    fn compile(object: &FlowSchemaObject, level: &LevelConfiguration) -> Self {
        let spec = &level.object.spec;
        let has_queues = spec.queuing().is_some_and(|queuing| queuing.queues > 1);
        Self {
            name: object.name.clone(),
            level: level.level.clone(),
            is_exempt: spec.is_exempt(),
            slot: level.level.slot(&object.name),
            distinguisher: object.spec.distinguisher_method.filter(|_| has_queues),
            max_seats: level.max_seats(),
            uids: uid_headers(&object.uid, &level.object.uid),
            rules: object.spec.rules.clone().unwrap_or_default(),
        }
    }
}

fn uid_headers(flow_schema: &str, level: &str) -> Option<(HeaderValue, HeaderValue)> {
    if flow_schema.is_empty() && level.is_empty() {
        return None;
    }
    Some((
        HeaderValue::try_from(flow_schema).ok()?,
        HeaderValue::try_from(level).ok()?,
    ))
}

// === impl LevelConfiguration ===

impl LevelConfiguration {
    /// Compiles a level; `None` if the object is malformed.
    fn compile(object: &PriorityLevelObject, previous: &[Self], factory: &LevelFactory) -> Option<Self> {
        let response = limit_response(&object.spec).filter(|_| object.is_consistent())?;
        let known = previous.iter().find(|one| one.object.name == object.name);
        let level = known.map_or_else(
            || {
                Level::new(
                    &object.name,
                    response,
                    factory.clock.clone(),
                    factory.wake.clone(),
                )
            },
            |one| one.level.clone(),
        );
        Some(Self {
            level,
            object: object.clone(),
            response,
            limits: Limits::default(),
        })
    }

    /// The most seats that one request may take of a level with queues: a fraction of its seats, and no more than its
    /// seats divided by the hand size.
    fn max_seats(&self) -> Option<usize> {
        let queuing = self.object.spec.queuing()?;
        let nominal = self.limits.nominal;
        let share = (nominal * MAX_SEATS_PERCENT).div_ceil(100);
        Some(share.min(nominal / queuing.hand_size.max(1)).max(1))
    }
}

/// `None` if the hash cannot deal the hands.
fn limit_response(spec: &PriorityLevelSpec) -> Option<LimitResponse> {
    if spec.is_exempt() {
        return Some(LimitResponse::Exempt);
    }
    let Some(queuing) = spec.queuing() else {
        return Some(LimitResponse::Reject);
    };
    Some(LimitResponse::Queue(QueuingConfig {
        queues: queuing.queues,
        queue_length_limit: queuing.queue_length_limit,
        dealer: Dealer::try_new(queuing.queues, queuing.hand_size)?,
    }))
}

#[cfg(test)]
pub(crate) mod tests;
