//! ValidatingWebhookConfiguration: webhooks that may reject an object before it is written.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::{CATEGORIES, GROUP, RULES, webhook};

#[derive(Debug)]
pub struct ValidatingWebhookConfiguration;

impl Strategy for ValidatingWebhookConfiguration {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "ValidatingWebhookConfiguration");
    const NAMES: Names = Names::new(
        "validatingwebhookconfigurations",
        "validatingwebhookconfiguration",
    )
    .categories(CATEGORIES);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::number("Webhooks", |configuration, _| {
            Cell::from(
                i64::try_from(configuration.at(fields::WEBHOOKS).len()).expect("webhooks fit into memory"),
            )
        })
        .description("The number of webhooks."),
        columns::AGE,
    ];
    const RULES: Rules = RULES;

    fn default_fields(configuration: &mut Tree) {
        for webhook in configuration.items_mut(fields::WEBHOOKS) {
            webhook::set_defaults(webhook);
        }
    }

    fn validate(configuration: &FieldRef<'_>, _facts: &RequestFacts) {
        webhook::validate(&configuration.at(fields::WEBHOOKS), &FieldRef::absent());
    }

    fn validate_for_update(configuration: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        webhook::validate(&configuration.at(fields::WEBHOOKS), &old.at(fields::WEBHOOKS));
    }
}
