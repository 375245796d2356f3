//! Lease: a lock that its holder must renew in time to keep.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, name};

#[derive(Debug)]
pub struct Lease;

impl Strategy for Lease {
    const KIND: (&'static str, &'static str, &'static str) = ("coordination.k8s.io", "v1", "Lease");
    const NAMES: Names = Names::new("leases", "lease");
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Holder", |lease, _| {
            columns::or_empty(&lease.at(fields::SPEC).at(fields::HOLDER_IDENTITY))
        })
        .description("The holder of the lease."),
        columns::AGE,
    ];
    const RULES: Rules = Rules::DEFAULT
        .create_on_update()
        .no_unconditional_update()
        .unqualified_finalizers();

    // Coordinated leader election is disabled: its fields are dropped unless already in use.
    fn prepare_create(lease: &mut Tree, _facts: &RequestFacts) {
        lease.take(&[fields::SPEC, fields::STRATEGY]);
        lease.take(&[fields::SPEC, fields::PREFERRED_HOLDER]);
    }

    fn prepare_update(lease: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        for field in [fields::STRATEGY, fields::PREFERRED_HOLDER] {
            if old.at(&[fields::SPEC, field]).is_none() {
                lease.take(&[fields::SPEC, field]);
            }
        }
    }

    fn validate(lease: &FieldRef<'_>, _facts: &RequestFacts) {
        let spec = lease.at(fields::SPEC);
        let seconds = spec.at(fields::LEASE_DURATION_SECONDS);
        if seconds.is_set() && seconds.int() <= 0 {
            seconds.invalid("must be greater than 0");
        }
        spec.at(fields::LEASE_TRANSITIONS).not_negative();
        let (strategy, holder) = (spec.at(fields::STRATEGY), spec.at(fields::PREFERRED_HOLDER));
        if strategy.is_set() {
            validate_strategy(&strategy);
        }
        if !holder.is_empty() && strategy.is_empty() {
            holder.forbidden("may only be specified if `strategy` is defined");
        }
    }
}

/// Strategies without a domain are reserved for Kubernetes.
fn validate_strategy(strategy: &FieldRef<'_>) {
    let field = strategy.with_errors(strategy.errors().at(fields::STRATEGY));
    if strategy.str().contains('/') {
        name::check(&field, name::check_qualified_name);
    } else if strategy.str() != "OldestEmulationVersion" {
        field.not_supported(&["OldestEmulationVersion"]);
    }
}
