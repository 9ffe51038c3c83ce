// Generated from the service's /openapi.json by `npm run generate`: not to be edited.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description An arm in the report. */
        ArmReportReply: {
            arm_id: string;
            /** @description Decisions whose timeout has passed and that have neither a reward nor a default yet. */
            expired: number;
            external: components["schemas"]["ExternalReply"];
            /** @description Decisions waiting for a reward. */
            pending: number;
            /** @description Decisions for this arm, including external ones; of pruned decisions, those with a reward. Warm starts are observations, not plays. */
            plays: number;
            rewards: components["schemas"]["RewardsReply"];
            /** @description Share of the plays of all arms; null without plays. */
            share: number | null;
            /** @description null for an arm that is not registered. */
            status: ("active" | "paused" | "retired") | null;
        };
        /** @description What the campaign's baseline allows, and how often it had to be kept to. */
        BaselineReply: {
            /** @description Of the decisions so far, for arms that may be worse than the baseline, in reward units. */
            allowance: number;
            arm_id: string;
            /** @description Recent decisions that went to the baseline because it did not cover another arm. */
            held: number;
            /** @description The same in a sentence. */
            sentence: string;
            tolerance: number;
        };
        /** @description A change of an arm's rewards with its times. */
        ChangeReply: {
            /** @description null for arms that are not registered, which are watched together. */
            arm_id: string | null;
            /** @description The row of the log with which the alarm was raised. */
            raised: number;
            /** Format: date-time */
            raised_at: string;
            /** @description The same in words, and what can be done. */
            sentence: string;
            /** @description The row of the log with which it began. */
            since: number;
            /** Format: date-time */
            since_at: string;
            /** @description How much the rewards have moved relative to the estimates, in reward units. */
            size: number;
            /** @description The standard deviation of the rewards about the estimates, before it. */
            spread: number;
            /** @description Whether the estimate still rests on more from before the change than since. */
            stands: boolean;
        };
        /** @description A feature's contribution to an estimate. */
        ContributionReply: {
            /** @description Parameter times feature, after the campaign's centring and scaling; of a feature with several columns, their sum. */
            contribution: number;
            /** @description The feature's name, or its position in the request if features have no names; `intercept` for the constant. */
            feature: string;
            /** @description Of a feature with a name: what was sent; null for a missing value. */
            value?: number | boolean | string | null;
        };
        /** @description The average of the worst share ``level`` of the rewards (conditional value at risk, expected shortfall). */
        CvarRisk: {
            /** @description The share of bad cases, as 0.1. */
            level: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            measure: "cvar";
        };
        /**
         * @description The entropic risk: certainty equivalent under exponential utility. Needs reward bounds.
         *
         *     Defaults with this measure: regularization 0.1 |gamma|; for linucb-ogd-cr the harmonic schedule with a step_size
         *     of 0.1 / (|gamma| feature_bound^2).
         */
        EntropicRisk: {
            gamma?: number | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            measure: "entropic";
            risk_tolerance?: number | null;
        };
        /** @description The model's estimate for an arm, in reward units. */
        EstimateAtReply: {
            arm_id: string;
            estimate: number;
            /** @description Asymptotic 95% interval; not a guarantee. null where there is none. */
            interval: number[] | null;
        };
        /** @description The rewards that an event was: one for each campaign that names it and had a decision waiting. */
        EventReply: {
            /** @description Campaigns that had one waiting, too, but did not take this event. */
            refused: components["schemas"]["RefusedReply"][];
            rewarded: components["schemas"]["RewardedReply"][];
        };
        /** @description Something that a subject did, or that happened to it. */
        EventRequest: {
            /**
             * @description When it happened, and so which window it belongs to.
             * @default null
             */
            at?: string | null;
            /** @description Its name, as in the campaigns' reward.events. */
            event: string;
            /** @description Makes it safe to send it again. */
            event_id: string;
            /**
             * @description Whom or what a decision is for: any text. It is not stored; a keyed digest of it is.
             * @example user-1
             */
            subject: string;
            /**
             * @description What the reward is made of, unless it is a constant.
             * @default null
             */
            value?: number | null;
        };
        /** @description The expectile: a shortfall below the value counts ``downside_weight`` times a surplus above it. */
        ExpectileRisk: {
            downside_weight?: number | null;
            level?: number | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            measure: "expectile";
        };
        /** @description A candidate of an explained decision. */
        ExplainedArmReply: {
            arm_id: string;
            /** @description Exploration bonus, in reward units: large where the estimate is uncertain. null if infinite: with the bonus self-scaled, of an arm with too few observations. */
            bonus: number | null;
            /** @description They sum to the estimate. null for multi-armed campaigns, and for the lower-ranked candidates if there are more than 2,000 contributions. */
            contributions?: components["schemas"]["ContributionReply"][] | null;
            /** @description Estimated risk-adjusted reward, in reward units. */
            estimate: number;
            /** @description estimate + exploration x bonus; with the randomized rule the bonus is also multiplied by a draw that all candidates of a decision share. null if infinite. */
            index: number | null;
            /** @description For the risk at these features. Asymptotic 95% interval (sandwich variance); not a guarantee, and not the bonus. null if it cannot be computed or would mislead: too few observations, a binding parameter_bound, features with hardly any variation in the observations, a regularization that may have moved the estimate by more than a quarter of the half-width, linucb-ogd-cr, or too many observations to sum over. */
            interval?: number[] | null;
            /** @description Why there is no interval; null where there is one. */
            interval_note?: string | null;
            /** @description For the risk at these features. Lower and upper limit, which hold for all arms and all rounds together with probability 1 - delta: of the bonus self-scaled, calibrated by simulation, no guarantee; of the bonus self-normalized, proved under the condition of the model's guarantee_note, the lower one null, since no data give one. null with another bonus, and while the index is infinite. */
            limits?: (number | null)[] | null;
            /** @description Its probability of being played. null in explanations of releases before 0.2. */
            propensity?: number | null;
        };
        /** @description Choices made by the application itself. */
        ExternalReply: {
            /** @description Those in which the service would have chosen the same arm. */
            agreed: number;
            /** @description agreed / decisions; null without any. */
            agreement: number | null;
            decisions: number;
        };
        /** @description The contexts by one feature. */
        FeatureGroupsReply: {
            feature: string;
            /** @description In the order of the feature's values. */
            groups: components["schemas"]["GroupReply"][];
            /** @description How much of what is uncertain about the best arm this feature takes away, from 0 to 1: their mutual information over the entropy of the best arm (Theil's uncertainty coefficient). */
            told: number;
        };
        /** @description Contexts with about the same value of a feature. */
        GroupReply: {
            contexts: number;
            /** @description By arm: in how many of these contexts it is the best. */
            shares: {
                [key: string]: number;
            };
            /** @description In words: yes or no; a category, or (other); a number, or the range of a quarter of the contexts; (missing). */
            value: string;
        };
        /** @description Rewards of the decisions that were held out, or of those that could have been. */
        HoldoutGroupReply: {
            /** @description Asymptotic 95% interval for the risk, as of an arm's rewards. */
            interval: number[] | null;
            n: number;
            risk: number | null;
        };
        /** @description What the policy gains over the campaign's holdout, in its risk measure. */
        HoldoutReply: {
            arm_id: string | null;
            decided: components["schemas"]["HoldoutGroupReply"];
            held_out: components["schemas"]["HoldoutGroupReply"];
            /** @description Asymptotic 95% interval for the lift; not a guarantee. It takes rewards for independent: those of a subject that comes back are not quite. */
            interval: number[] | null;
            /** @description The risk of what the policy decided minus that of what was held out. null without rewards of both. */
            lift: number | null;
            policy: "uniform" | null;
            /** @description The same in a sentence. */
            sentence: string;
            share: number;
        };
        /** @description Whether the campaign is learning, and what it has found. */
        LearningReply: {
            /** @description Share of them in which the service's choice was an arm other than the best estimate. For external choices, the recommended arm counts; decisions that were held out do not. */
            exploring_share: number | null;
            /** @description The active arm with the best risk; null where several share it, and in campaigns with features, where `policy` says which arm is best in which contexts. */
            leading_arm_id: string | null;
            /** @description The same in words; with features, the policy's sentence. */
            note: string;
            /** @description How many observations the campaign has learned: rewards, default rewards and warm starts. */
            observations: number;
            /** @description Rewards are stored, and learned when the campaign is active again. */
            paused: boolean;
            /** @description How many decisions exploring_share counts: at most the last 100. */
            recent_decisions: number;
            runner_up_arm_id: string | null;
            /** @description Whether the leader's risk interval lies entirely above the runner-up's, and still would after one more reward as bad as the worst of the campaign; null if one of them is null. Evidence, not a guarantee: an outcome rarer than one in unseen_one_in may not have been seen. */
            separated: boolean | null;
            /** @description Arms that the leader is not separated from, or that share the best risk: they may still turn out better. */
            undecided_arm_ids: string[];
            /** @description An outcome of the leader rarer than one in so many may not have been seen: a third of its rewards. null where separated is. */
            unseen_one_in: number | null;
        };
        /** @description The mean: bad outcomes get no extra weight. */
        MeanRisk: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            measure: "mean";
        };
        /** @description The mean less ``aversion`` standard deviations, or less ``aversion``/2 times the variance. */
        MeanVarianceRisk: {
            /** @description Of deviations, or per reward unit where `of` is variance. */
            aversion: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            measure: "mean-variance";
            /**
             * @description What is punished.
             * @default deviation
             * @enum {string}
             */
            of?: "deviation" | "variance";
        };
        /**
         * @description The average of a function of the reward; the estimates are in the unit of that function.
         *
         *     above: 1 where the reward is at least ``threshold``, else 0; shortfall: reward - ``threshold``, at most 0; capped:
         *     the reward within ``lower`` and ``upper``; gain-loss: the reward, what is below ``reference`` multiplied by
         *     ``factor``; power: reward to the power ``exponent``, needs reward.minimum of at least 0; log: needs reward.minimum
         *     above 0.
         */
        MomentRisk: {
            exponent?: number | null;
            factor?: number | null;
            lower?: number | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            measure: "moment";
            /** @enum {string} */
            of: "above" | "shortfall" | "capped" | "gain-loss" | "power" | "log";
            reference?: number | null;
            threshold?: number | null;
            upper?: number | null;
        };
        /** @description Where an arm has the best estimate. */
        PolicyArmReply: {
            arm_id: string;
            /** @description The estimate for this arm, averaged over the contexts seen; null for shared. */
            average_estimate: number | null;
            /** @description At the typical context, best first; at most 3 arms. */
            estimates: components["schemas"]["EstimateAtReply"][];
            /** @description disjoint: of each feature, from the 10% to the 90% quantile of the contexts in which the arm is best; null for a feature that is no number. */
            ranges: (number[] | null)[] | null;
            /** @description Of the contexts seen: disjoint, by the model as it is now; shared, of the decisions, each by the model at the time. */
            share: number;
            /** @description disjoint: of the contexts in which the arm is best, the one closest to their middle; shared: the arm's features. As sent. null for arms that are best nowhere, and beyond the first 8. */
            typical: number[] | {
                [key: string]: unknown;
            } | null;
        };
        /** @description Which arm is best in which contexts, by the model's estimates. */
        PolicyReply: {
            /** @description The arms that are best most often first. */
            arms: components["schemas"]["PolicyArmReply"][];
            /** @description The estimate for each context's best arm, averaged over the contexts; null for shared. */
            average_estimate: number | null;
            /** @description For whom which arm is best, by the 6 features of requests that say most about it. */
            by_feature: components["schemas"]["FeatureGroupsReply"][];
            /** @description How many were looked at: those of the latest decisions, at most 1,000. */
            contexts: number;
            feature_names: string[];
            sentence: string;
        };
        /** @description What the mean would choose instead, among the active arms that have rewards; nulls in campaigns with features. */
        PriceOfCautionReply: {
            best_by_mean: string | null;
            best_by_risk: string | null;
            /** @description Mean of best_by_mean minus mean of best_by_risk; never negative. */
            mean_difference: number | null;
            /** @description Risk measure of best_by_risk minus that of best_by_mean; never negative. */
            risk_difference: number | null;
            /** @description The same in a sentence. */
            sentence: string;
        };
        /** @description What the reward exceeds with probability 1 - ``level`` (value at risk). */
        QuantileRisk: {
            /** @description The share of bad cases, as 0.1. */
            level: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            measure: "quantile";
        };
        /** @description A campaign that refused an event, and learned nothing from it. */
        RefusedReply: {
            campaign_id: string;
            /** @description Why, as in an error. */
            detail: string;
        };
        /** @description What happened in a campaign, up to the head of its log when the report started. */
        ReportReply: {
            /** @description Registered arms in order, then the first 1,000 others that were encountered. */
            arms: components["schemas"]["ArmReportReply"][];
            /** @description Campaigns with a baseline only. */
            baseline: components["schemas"]["BaselineReply"] | null;
            campaign_id: string;
            /** @description What the alarm that the world changed found, latest first; null where the model cannot be asked. */
            changes: components["schemas"]["ChangeReply"][] | null;
            expired: number;
            external: components["schemas"]["ExternalReply"];
            /** @description The first row of the log that counts, 1 unless the campaign was restarted: rewards before it are in no figure, and their decisions are plays all the same. */
            first_row: number;
            /** @description The last sequence number of the campaign's log: how many observations are stored. Larger than observations while the campaign is paused. The report covers the rewards up to it. */
            head: number;
            /** @description Campaigns with a holdout only. */
            holdout: components["schemas"]["HoldoutReply"] | null;
            interval_note: string;
            learning: components["schemas"]["LearningReply"];
            /** @description How many observations the campaign has learned: rewards, default rewards and warm starts. */
            observations: number;
            pending: number;
            plays: number;
            /** @description Campaigns with features only. */
            policy: components["schemas"]["PolicyReply"] | null;
            price_of_caution: components["schemas"]["PriceOfCautionReply"];
            risk: components["schemas"]["MeanRisk"] | components["schemas"]["ExpectileRisk"] | components["schemas"]["EntropicRisk"] | components["schemas"]["CvarRisk"] | components["schemas"]["QuantileRisk"] | components["schemas"]["MeanVarianceRisk"] | components["schemas"]["MomentRisk"];
            /** @description Signs that an active campaign stands still; usually empty. */
            stalls: components["schemas"]["StallReply"][];
            /** @enum {string} */
            status: "active" | "paused" | "archived";
            unlisted: components["schemas"]["UnlistedReply"];
        };
        /** @description A reward that an event was. */
        RewardedReply: {
            campaign_id: string;
            decision_id: string;
            /** @description Whether this event had been learned before. */
            duplicate: boolean;
            reward: number;
        };
        /** @description A reward, durable and learned before this reply. */
        RewardReply: {
            arm_id: string;
            campaign_id: string;
            decision_id: string;
            /** @description Whether this reward had been recorded before. */
            duplicate: boolean;
            /** @description false while the campaign is paused. */
            learned: boolean;
            /** @description How many observations the campaign has learned: rewards, default rewards and warm starts. */
            observations: number;
            reward: number;
            /** @description This reward's place in the campaign's log, from 1; the same on a repeat. */
            sequence: number;
        };
        /** @description The outcome of a decision. Larger is better. */
        RewardRequest: {
            /**
             * @description The arm that was actually used, if another (disjoint, multi-armed).
             * @default null
             */
            arm_id?: string | null;
            /**
             * @description Required with subject, and with a decision_id that several campaigns have used.
             * @default null
             */
            campaign_id?: string | null;
            /** @default null */
            decision_id?: string | null;
            reward: number;
            /**
             * @description In place of decision_id: its latest decision is meant, in this window of the campaign's assignment or else in the one before.
             * @default null
             */
            subject?: string | null;
        };
        /** @description Observations by source. */
        RewardSourcesReply: {
            /** @description Default rewards, learned at a deadline. */
            default: number;
            reward: number;
            warm_start: number;
        };
        /** @description Statistics of an arm's rewards, regardless of features. Reward units; null without rewards. */
        RewardsReply: {
            /** @description Asymptotic 95% interval for the risk (sandwich variance, Student's t); not a guarantee. null for fewer than 30 rewards, and if all are equal. */
            interval: number[] | null;
            maximum: number | null;
            mean: number | null;
            minimum: number | null;
            /** @description Observations of this arm, including warm starts and defaults. */
            n: number;
            /** @description The campaign's risk measure of these rewards. */
            risk: number | null;
            sources: components["schemas"]["RewardSourcesReply"];
            /** @description With divisor n - 1; null for fewer than two rewards. */
            standard_deviation: number | null;
        };
        /** @description A candidate. Features may be omitted for an arm that was registered with them. */
        SelectArm: {
            /**
             * @description Arm id, unique in its campaign.
             * @example a
             */
            arm_id: string;
            /** @default null */
            features?: number[] | {
                [key: string]: unknown;
            } | null;
        };
        /** @description A decision, durable before this reply. */
        SelectReply: {
            /** @description For a subject only: whether the request could have this arm chosen now; false if it has been paused or retired, or is not among the arms that the request allows. */
            arm_available?: boolean | null;
            arm_id: string;
            /** @description Only if explain is true: every candidate, best first. */
            arms?: components["schemas"]["ExplainedArmReply"][] | null;
            /** @description Exploration bonus, in reward units: large where the estimate is uncertain. null if infinite: with the bonus self-scaled, of an arm with too few observations. */
            bonus: number | null;
            campaign_id: string;
            decision_id: string;
            /** @description Estimated risk-adjusted reward, in reward units. */
            estimate: number;
            /** @description Whether the chosen arm is an arm other than the best estimate. */
            exploring: boolean;
            /** @description The arm with the best estimate. */
            greedy_arm_id: string;
            /** @description estimate + exploration x bonus; with the randomized rule the bonus is also multiplied by a draw that all candidates of a decision share. null if infinite. */
            index: number | null;
            /** @description How many observations the campaign had learned when the choice was made. Equal to seen, also when the decision is returned again later. */
            observations: number;
            /** @description Exact probability of the choice given the past: 1/n in an n-way tie of the optimistic rule; null for an external choice. */
            propensity: number | null;
            /**
             * @description The first that applies: external (the application chose), only-arm, greedy (explore was false), uniform, warmup, floor, index; baseline (its allowance did not cover these); holdout (which has this one).
             * @enum {string}
             */
            reason: "external" | "only-arm" | "greedy" | "uniform" | "warmup" | "floor" | "index" | "holdout" | "baseline";
            /** @description External choices only: the arm that the service recommends. */
            recommended_arm_id?: string | null;
            /** @description For a subject only: whether this is a decision that was made before. */
            repeated?: boolean | null;
            /** @description How many of the campaign's observations the choice was based on. */
            seen: number;
            /** @description Of the chosen arm, as it is now: what the campaign says, or else the arm's id. */
            value: unknown;
        };
        /** @description A request to choose an arm. */
        SelectRequest: {
            /**
             * @description deferred: for a decision that may never be shown. It counts as a play, and its deadline runs, only once it is activated or rewarded.
             * @default immediate
             * @enum {string}
             */
            activation?: "immediate" | "deferred";
            /**
             * @description Shared model: the candidates; all registered arms if absent.
             * @default null
             */
            arms?: components["schemas"]["SelectArm"][] | null;
            /**
             * @description Campaign id.
             * @example dose-advice
             */
            campaign_id: string;
            /**
             * @description The arm that the application has already chosen; it is recorded, and the reply says which arm the service recommends.
             * @default null
             */
            chosen_arm_id?: string | null;
            /**
             * @description Features of this request: of a disjoint model, or the context_features of a shared one.
             * @default null
             */
            context?: number[] | {
                [key: string]: unknown;
            } | null;
            /**
             * @description Chosen by the client, so that it can retry safely; generated by the server if absent.
             * @default null
             */
            decision_id?: string | null;
            /**
             * @description Choose among these arms only.
             * @default null
             */
            eligible?: string[] | null;
            /** @description Do not choose these arms. */
            exclude?: string[];
            /**
             * @description true: include the scores of all candidates in the reply, best first.
             * @default false
             */
            explain?: boolean;
            /**
             * @description false: take the arm with the best estimate, without warm-up and bonus.
             * @default true
             */
            explore?: boolean;
            /**
             * @description In place of decision_id: the first decision for it stands for as long as the campaign's assignment says, whatever else later requests say.
             * @default null
             */
            subject?: string | null;
        };
        /** @description A sign that a campaign stands still; see docs/changing-world.md. */
        StallReply: {
            /** @enum {string} */
            kind: "no-rewards" | "rewards-refused" | "one-arm" | "exploration-ended";
            /** @description What was seen, and what to look at. */
            sentence: string;
        };
        /** @description A decision as it was answered, and what became of it. */
        StoredDecisionReply: {
            arm_id: string;
            /** @description Only if explain is true: every candidate, best first. */
            arms?: components["schemas"]["ExplainedArmReply"][] | null;
            /** @description Exploration bonus, in reward units: large where the estimate is uncertain. null if infinite: with the bonus self-scaled, of an arm with too few observations. */
            bonus: number | null;
            campaign_id: string;
            /** Format: date-time */
            created_at: string;
            decision_id: string;
            /** @description The deadline for a reward; null once there is one, before a deferred decision is activated, and in campaigns without a timeout. */
            due_at: string | null;
            /** @description Estimated risk-adjusted reward, in reward units. */
            estimate: number;
            /** @description Whether the chosen arm is an arm other than the best estimate. */
            exploring: boolean;
            /** @description The arm with the best estimate. */
            greedy_arm_id: string;
            /** @description estimate + exploration x bonus; with the randomized rule the bonus is also multiplied by a draw that all candidates of a decision share. null if infinite. */
            index: number | null;
            /** @description How many observations the campaign had learned when the choice was made. Equal to seen, also when the decision is returned again later. */
            observations: number;
            /** @description Exact probability of the choice given the past: 1/n in an n-way tie of the optimistic rule; null for an external choice. */
            propensity: number | null;
            /**
             * @description The first that applies: external (the application chose), only-arm, greedy (explore was false), uniform, warmup, floor, index; baseline (its allowance did not cover these); holdout (which has this one).
             * @enum {string}
             */
            reason: "external" | "only-arm" | "greedy" | "uniform" | "warmup" | "floor" | "index" | "holdout" | "baseline";
            /** @description External choices only: the arm that the service recommends. */
            recommended_arm_id?: string | null;
            /** @description Whether a reward, or the campaign's default, has been recorded for it. */
            rewarded: boolean;
            /** @description How many of the campaign's observations the choice was based on. */
            seen: number;
            /** @description Of the chosen arm, as it is now: what the campaign says, or else the arm's id. */
            value: unknown;
        };
        /** @description Unregistered arms that are not listed one by one. */
        UnlistedReply: {
            plays: number;
            rewards: number;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
