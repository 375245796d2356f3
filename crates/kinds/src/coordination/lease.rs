//! Lease: a claim that its holder renews in time or loses.

use k8s_openapi::api::coordination::v1::Lease;

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;

use crate::columns::{self, Column};
use crate::strategy::{Facts, Names, Rules, Strategy};

impl Strategy for Lease {
    const NAMES: Names = Names::new("leases", "lease");
    const COLUMNS: &'static [Column<Self>] = &[
        columns::name(),
        Column::text("Holder", |lease, _| Cell::from(holder(lease))).about("Who holds the lease."),
        columns::age(),
    ];
    const RULES: Rules = Rules {
        create_on_update: true,
        unconditional_update: false,
        ..Rules::DEFAULT
    };

    // Coordinated leader election is off: its fields are dropped unless already in use.
    fn prepare_create(&mut self, _facts: &Facts) {
        if let Some(spec) = &mut self.spec {
            (spec.strategy, spec.preferred_holder) = (None, None);
        }
    }

    fn validate(&self, errors: &Errors<'_>) {
        let Some(spec) = &self.spec else { return };
        let errors = errors.at("spec");
        if let Some(seconds) = spec.lease_duration_seconds.filter(|seconds| *seconds <= 0) {
            errors
                .at("leaseDurationSeconds")
                .invalid(seconds, "must be greater than 0");
        }
        if let Some(count) = spec.lease_transitions.filter(|count| *count < 0) {
            errors
                .at("leaseTransitions")
                .invalid(count, "must be greater than or equal to 0");
        }
    }
}

fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default()
}
