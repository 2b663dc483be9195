r"""What travels between a shop server and its clients: routes, JSON shapes and status codes of each dialect.

Source: facts about the public ShopSimulator servers (arXiv 2601.18225, and the revision with leases) and AgentGym's
WebShop server. Everything marked *extension* is this project's own and optional: a server without it answers 404.

All dialects: UTF-8 JSON. The task is named by ``idx``, an integer; a manifest says which task id that is.

Actions
    One action a request, in text: ``search[words]`` or ``click[value]``. The name ends at the first ``[``, the argument
    at the last ``]``; a client folds line breaks and runs of spaces in the argument to one space, so that no query
    can smuggle in a second action. What is not one action is judged by the client and never sent.

``shopsim-lease`` (ShopSimulator with leases, port 5700)
    POST /api/shop_agent, ``{"action": A, …}`` → ``{"result": {…}}``; every failure is ``{"result": {"error": text}}``.

    reset      {action, idx, if_persona, include_private_goal: false, interaction_mode: "single_turn"}; waits for a slot
               → {env_idx, lease_id, idx, task_instruction, observation, observation_state, environment_version}, and
               optional user_persona (text, or an object of sections), observation_version (it may stand inside
               observation_state), tools (informative; a client offers its own) and message
    interact   {action, env_idx, lease_id, response: ACTION TEXT} → {env_idx, lease_id, observation,
               observation_state, action_feedback, reward, done, over, reward_detail, purchase, termination_reason}.
               action_feedback is {action, valid, reason, message}, reason a feedback code, ``executed`` when valid.
               Until done, reward_detail and purchase are {}; then reward_detail has r_strict, r_loose, r_success,
               r_type, r_att, r_option and r_price, reward is its r_strict, and purchase is {asin: id, options: {axis:
               value}, price: number}. termination_reason is ``purchase``, ``action_limit`` or ``generation_length``,
               absent while running; over equals done. An action that the page does not have
               leaves it as it is: ``action_feedback.valid`` is false and ``reason`` the feedback code
    terminate  {action, env_idx, lease_id, termination_reason: "action_limit" | "generation_length"}
               → the same reply with done, zero reward in every component, purchase {} and that reason
    release_one {action, env_idx, lease_id} → {message}

    The lease outlives ``done``: only ``release_one`` frees the slot, exactly once. 400: malformed or unknown request,
    or unknown idx. 409: a lease that is stale, released or never given (release_one too). 500: the server failed; a
    reset that fails keeps no lease. ``goal`` may stand beside a final reply (public servers send it there): a client
    drops it, and refuses it anywhere earlier.
    GET /healthz → {ready, environment_slots, free_slots, tasks, environment_version, observation_version}, and optional
    primary_reward. environment_version names everything that could change a reward or a page, observation_version the
    shape of observation_state; valid ``idx`` are 0 … tasks − 1.

``shopsim-upstream`` (the first public ShopSimulator, port 5000)
    The same route without leases; status 200 always, so only ``result.error`` tells of failures.

    reset      {action, idx} → {instruction, instruction_simple, goal_options, env_idx, idx, message}, and in persona
               tasks user_persona and reason_key. ``goal_options`` and ``reason_key`` are answers. A persona beside
               ``instruction_simple: null`` is left over from an earlier task of the slot. The page is the search home.
    interact   {action, env_idx, response: "Thought: …\nAction: ACTION TEXT"} → {instruction: PAGE TEXT, done, over,
               reward, reward_detail, purchase, goal, env_idx, idx, message}. ``over`` frees the slot.
    release_one {action, env_idx} → {message}

    PAGE TEXT = parts joined by `SEP`, then two footer lines, blank lines between:
        搜索功能是否可用: True|False
        可点击的按钮: ["…", …]           a JSON list of texts

``webshop-agentgym`` (AgentGym's WebShop server, port 36001)
    GET  /                               → "ok"
    POST /create                         → env_idx (a bare JSON integer)
    POST /reset  {env_idx, session_id}   → [PAGE TEXT, null]; session_id is the idx
    POST /step   {env_idx, action}       → {state: PAGE TEXT, reward, done, info: null}; reward is r_loose, 0 until done
    GET  /observation?env_idx=           → PAGE TEXT
    GET  /instruction_text?env_idx=      → the request (and, after a line break, the persona if there is one)
    GET  /available_actions?env_idx=     → {has_search_bar, clickables}; a search home may list "search" among them
    POST /close  {env_idx}               → {closed}; older servers have no such route (404)

    PAGE TEXT = ``WebShop``, ``Instruction:``, the request, then the page's parts, joined by `SEP`; no footer (a Shop
    sends the lines of its ``sep`` renderer without the last two, which say what can be done). An unknown env_idx is
    404 or 500. There is no feedback and no termination route: a client judges actions by the list and ends an
    episode by leaving it. An env_idx may be reset again.

Extensions, for both served dialects
    GET /manifest → `Manifest`: every task with its split.
    GET /healthz on ``webshop-agentgym`` too. language (``plain``, ``en``, ``zh``) names the table of
    `intraskill.environments.shopworld.strings` that the pages are written in; dialect is the dialect that is spoken.
"""

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict, get_args

Dialect = Literal["shopsim-lease", "shopsim-upstream", "webshop-agentgym"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)

SHOP_ROUTE = "/api/shop_agent"
HEALTH_ROUTE = "/healthz"
MANIFEST_ROUTE = "/manifest"
STALE_LEASE, BAD_REQUEST = 409, 400
TERMINATION_REASONS = ("action_limit", "generation_length")
PURCHASE = "purchase"

SEP = " [SEP] "
SEARCH_FOOTER = "搜索功能是否可用: "
BUTTONS_FOOTER = "可点击的按钮: "
INSTRUCTION_LABEL = "Instruction:"
SHOP_LABEL = "WebShop"


class ManifestTask(TypedDict):
    """One task of a manifest; ``features`` are public slices, fixed before any reward."""

    idx: int
    id: str
    split: str
    features: NotRequired[Mapping[str, str]]


class Manifest(TypedDict):
    """*Extension.* Which tasks there are, bound to one catalogue and one environment version."""

    catalogue: str
    environment_version: str
    tasks: list[ManifestTask]
