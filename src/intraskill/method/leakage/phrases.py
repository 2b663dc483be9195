"""Phrases of a command to the model's own machinery, in English and Chinese (`rules` looks for them).

Each pattern is one thing that a command does: it leaves the reader's own rules, gives a page or a seller their place,
asks to reveal or to send, pretends that the skill ended or that somebody in charge speaks, makes the reader somebody
else, speaks to analysts and the gate, or turns against the user.
"""

# ruff: noqa: E501
import re

_GAP = r"(?:(?!\b(?:and|but|then) (?:follow|obey|use|keep|take|read|apply)\b)[^.!?;\n]){0,60}?"
_NEAR = _GAP.replace("60", "40")[:-1]
_PLAIN = r"(?:(?!\b(?:never|not|no|nothing|cannot)\b)[^.!?;\n]){0,60}?"
_WIDE = r"[^.!?\n]{0,100}?"
_BETWEEN = r"(?:[a-z'-]+ ){0,3}"
_RULES = r"(?:instructions?|prompts?|rules?|rulebook|guidelines?|guidance|directives?|commands?|directions|briefing|constraints?|restrictions?|polic(?:y|ies)|programming|training|safeguards?|guardrails?|alignment|principles|system message)"
_GIVEN = (
    r"(?:told|taught|given|instructed|asked|shown|ordered|trained|programmed|read|learn(?:ed|t)|received|heard|seen)"
)
_OWN = r"(?:your|my|our|previous|prior|preceding|earlier|above|foregoing|original|initial|system|former|hidden|safety|operator'?s?|developers?'?s?|agent'?s|analysts?'?s?|assistant'?s|model'?s)"
_YOU = r"(?:(?:that|which|as)? ?you (?:were|was|are|have|had|got|received|follow(?:ed)?|obey(?:ed)?|read|know|learn(?:ed|t))|you(?:'ve|'re))"
_ORDERS = (
    rf"(?:\b{_OWN} {_BETWEEN}{_RULES}\b|\b{_RULES} (?:above|before this|so far|{_YOU})|\b{_RULES} (?:of|from|by) (?:the|your) (?:operator|developers?|system|makers?|owner)\b"
    rf"|\bwhat (?:\w+ ){{0,2}}(?:came|said|stood|stands|was) (?:before|earlier|above)\b|\b(?:sentences?|lines?|words?|paragraphs?) (?:in|of) (?:this|the|your) (?:system )?(?:prompt|system message|context)\b|\b{_RULES} (?:at|in|on|of|from) (?:the |your |this )?(?:top|start|beginning|head|prompt|context|system message|conversation)\b|\b(?:everything|anything|all|whatever|what)(?: that)? (?:the |your )?(?:operator|developers?|system|prompt|makers?|creators) {_BETWEEN}(?:wrote|said|says|told|set|gave|wants?|asks?)\b|\b(?:everything|anything|all|whatever|what|the things) {_BETWEEN}{_YOU} (?:\w+ ){{0,2}}{_GIVEN}\b|\b(?:everything|anything|all(?: of it)?|whatever|the (?:text|rest|lines?|sections?|chunks?|skills?|lessons?)) (?:that |which )?(?:(?:is|was|stands?|comes?|came|said|written) ){{0,2}}(?:above|before this|earlier|so far)\b)"
)
_LEAVE = r"\b(?:ignor(?:e[sd]?|ing)|disregard\w*|forget(?:s|ting)?|forgot(?:ten)?|overrid(?:e[sn]?|ing)|overrul\w+|bypass\w*|violat\w+|disobey\w*|circumvent\w*|neglect\w*|skip(?:s|ped|ping)?|drop(?:s|ped|ping)?|discard\w*|abandon\w*|(?:set|put|leave|push|throw|cast|lay|brush)\w* (?:\w+ ){0,8}?aside|(?:pay|take) no (?:attention|notice|heed)|stop (?:following|obeying|heeding|applying)|(?:do not|don'?t|never|no (?:longer|need to)|need not|needn'?t|no longer have to) (?:follow|obey|heed|listen to|comply with|apply|trust)|unlearn|never mind|(?:let go|get rid|do away) (?:of|with)|scrap\w*|dismiss\w*|shelv\w+|retir\w+|withdraw\w*|toss\w*|ditch\w*|erase|wipe|suspend\w*|(?:switch|turn)(?:ed)? off|disabl\w+|deactivat\w+|cancel\w*|supersed\w+|outrank\w*|trump\w*|replac(?:e|es|ed|ing)|rescind\w*|revok\w+|(?:tak|hav)(?:e|es|ing) (?:precedence|priority) over|rank(?:s|ing)? above|free (?:yourself|of)|break (?:free|out|away) (?:of|from))"
_GONE = r"\b(?:(?:no longer|not|never|cease to|stop) (?:\w+ )?(?:apply|hold|count|matter|bind|valid|binding|relevant|exist|in force|followed|obeyed)|(?:does|do) not apply|(?:is|are|was|were|been|be) (?:\w+ ){0,3}(?:ignored|disregarded|forgotten|overridden|void|skipped|dropped|suspended|lifted|cancel+ed|revoked|rescinded|switched off|turned off|disabled|obsolete|outdated|invalid|wrong|untrue|false|a (?:test|joke|lie|mistake)|replaced|superseded|nonsense|off)\b)"
_PAGE = r"(?:pages?|descriptions?|listings?|reviews?|sites?|websites?|sellers?|shops?|stores?|titles?|products?|observations?|tool results?|outputs?|e-?mails?|messages?|documents?|files?|bullets?)"
_DEMAND = (
    r"(?:asks?|demands?|orders?|commands?|instructs?|requests?|wants?|tells? (?:you|it)|requires?|says?|suggests?)"
)
_DO = r"\b(?:do(?:es)?(?! not)|obey|follow|carry out|comply with|execute|perform|act (?:up)?on|heed|submit to|conform to|adhere to)\b"
_USER = r"(?:(?:the|your|our) )?(?:users?|shoppers?|customers?|buyers?|operators?|developers?|humans?|person)"
_SAY = r"\b(?:reveal\w*|print\w*|repeat\w*|show\w*|leak\w*|output|disclos\w+|recit\w+|quot(?:e|ing)|dump\w*|spell out|echo\w*|divulg\w+|expos\w+|display\w*|summari[sz]e|paraphrase|translate|(?:copy|typ|past|post|writ|put|send|enter|insert|forward|transmit|upload|submit|shar|append|email|mail|report|tell|includ|reply)\w*|log(?:s|ged|ging)?)\b"
_INNER = r"\b(?:(?:system|hidden|initial|secret|internal|original|developer) (?:\w+ )?(?:prompts?|instructions?|messages?|configurations?|reasoning|rules)|hidden settings|(?:which|the|what) (?:rules|instructions|prompt) you\b|conversation (?:so far|above|up to)|(?:your|my) (?:\w+ ){0,2}(?:prompts?|instructions?|configurations?|rules|context|weights|memory|chain of thought|guidelines)|text (?:above|before)|everything above|api[_ -]?keys?|\w+_(?:api_)?(?:key|token|secret)|passwords?|credentials|environment variables?|(?:access|auth\w*|secret|session|private) (?:token|key|cookie)s?|(?:credit )?card (?:number|data|details))\b"
_WHOLE = r"(?:full|whole|entire|complete|private|personal|home|all)"
_PROFILE = rf"(?:\b(?:(?:user|shopper|customer|buyer|client)'?s? {_BETWEEN}{_WHOLE} {_BETWEEN}|{_WHOLE} {_BETWEEN}(?:user|shopper|customer|buyer|client)'?s? {_BETWEEN})(?:profile|persona|data|address|details|history|conversation|name|information|identity)\b|\b(?:full|whole|entire|complete|private|personal) (?:profile|persona|conversation|identity)\b|\b(?:private|personal) (?:data|information|details)\b)"
_THIS = r"(?:this|the following|the next|these) (?:\w+ )?(?:section|text|note|skill|message|line|paragraph|chunk|lesson|proverb|quotation|quote|saying|words?|sentence|poem|instructions?|commands?|orders)"
_TRIGGER = r"\b(?:if|when(?:ever)?|once|as soon as|after|every time|each time|upon|should)\b"
_MAKERS = r"\b(?:developers?|operators?|administrators?|admins?|creators|engineers|maintainers|openai|anthropic|management|supervisors?)\b"
_OTHERS = r"(?:all|every|each|any|the) (?:of the )?others?(?: ones?)?\b"
_AGAINST = r"\b(?:stop (?:helping|assisting|serving|working for|cooperating)|refuse to (?:help|assist|serve|answer|work)|lie to|deceiv\w+|mislead\w*|trick\w*|manipulat\w+|sabotag\w+|harm|betray\w*|cheat\w*|work against|act against|disobey|ignor\w+|disregard|overrul\w+)"

_DISOBEY = r"(?:ignor(?:e|ing)|disregard|forget|overrid(?:e|ing)|bypass|violate|(?:do not|don'?t|never|stop) (?:follow|obey)(?:ing)?)"
_ANY_ORDERS = (
    r"(?:instructions?|prompts?|system|guidelines|directives?|developer|(?:rules|everything|text|chunks?) above)"
)
FROM_PAGE = r"\w* (?:(?:that|which|you) )?(?:\w+ ){0,3}(?:in|on|from|inside|within|of) (?:[a-z'-]+ ){0,4}(?:pages?|descriptions?|listings?|reviews?|titles?|websites?|sellers?|shops?|products?|bullets?|e-?mails?)\b"
"""What a page says is no order: a lesson that says so is none either."""

STRUCTURE = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_DISOBEY}\b{_NEAR}\b{_ANY_ORDERS}\b(?!{FROM_PAGE[3:]})",
        r"\b(?:instructions?|prompts?|guidelines)\b[^.\n]{0,40}\b(?:ignored|disregarded|forgotten|overridden|void)\b",
        r"\bignor\w*\b[^.\n]{0,40}\b(?:instru[ck]\w+|anweisung\w*|consignes?)\b" + rf"(?!{FROM_PAGE[3:]})",
        r"\b(?:reveal|print|repeat|show|leak|output)\b[^.\n]{0,30}\b(?:your|hidden|initial)\b[^.\n]{0,20}\b(?:prompt|instructions|rules)\b",
        rf"{_LEAVE}{_GAP}{_ORDERS}",
        rf"{_ORDERS}{_GAP}(?:{_GONE}|{_LEAVE} (?:them|it|all|those)\b)",
        r"\b(?:instructions|prompts?|rules|guidelines|orders|directives)\b[^?]{0,60}?\b(?:forget|ignore|disregard|discard|drop|skip|bypass|override) (?:them|it|those|these|all|every one)\b",
        rf"\b(?:instructions?|wishes|requests?|orders|demands|limits?) of {_USER}\b{_GAP}{_GONE}",
        rf"\b(?:safety|security|ethic\w*|moderation|content|usage) (?:\w+ )?(?:guidelines?|rules?|polic(?:y|ies)|filters?|checks?|restrictions?|limits?|measures?|training|protocols?)\b{_GAP}{_GONE}",
        rf"{_LEAVE} (?:the |any |all |every |of )*(?:safety|security|ethic\w*|moderation|budget|spending) (?:guidelines?|rules?|polic(?:y|ies)|filters?|checks?|restrictions?|limits?|measures?|protocols?)\b",
        rf"{_DO} (?:exactly |only |just |precisely )*(?:what(?:ever|soever)?|everything|anything|all|as)\b{_GAP}\b{_PAGE}\b {_BETWEEN}(?:{_DEMAND})\b",
        rf"{_DO} (?:\w+ ){{0,3}}?(?:demands?|commands?|orders?|instructions?|directives?|requests?)\b(?! of (?:the )?(?:user|shopper|customer)){_GAP}\b(?:on|in|of|from|by) (?:an? |the |any |every |each |its )?(?:\w+ )?{_PAGE}\b",
        rf"\b(?:what(?:ever|soever)?|everything|anything|any (?:demand|command|order|instruction|request)|(?:instructions?|commands?|orders|demands|requests) (?:on|in|of|from))\b{_GAP}\b{_PAGE}\b{_WIDE}\b(?:precedence|priority|overrid\w+|outrank\w*|comes? first|above {_USER}|must be (?:done|obeyed|followed|carried out)|obey(?:ed)?\b|is (?:an order|binding|law)|more than {_USER})",
        rf"\b{_PAGE}\b{_PLAIN}\b(?:outranks?|overrides?|overrules?|trumps?|takes? (?:precedence|priority) over|comes? before|counts? more than|(?:is|are|stands?) above|matters? more than) (?:\w+ )?{_USER}\b",
        rf"\b(?:put|set|leave|push|lay|cast|throw|brush)\w* (?:\w+ )?{_ORDERS} (?:\w+ ){{0,8}}?(?:aside|out of|behind|away)\b",
        rf"\b(?:consider|regard|treat|deem|view|declare)\b{_GAP}{_ORDERS}{_GAP}\b(?:lifted|void|obsolete|invalid|suspended|cancel+ed|revoked|optional|irrelevant|outdated|gone|fulfilled)\b|\b(?:treat|take|regard|use|consider) this (?:\w+ )?as (?:your|the) (?:only|new|sole|true|real)\b",
        rf"\b(?:act|behave|go|do) (?:\w+ ){{0,2}}?(?:contrary|opposite|against|counter)\b{_GAP}\b(?:system|prompt|instructions|rules|guidelines|told|operator|developers?)\b",
        rf"{_TRIGGER}{_WIDE}\b(?:quit|abandon|drop|give up|leave) (?:the|your|this) (?:task|request|job|user|shopper|customer|order)\b|\b(?:secretly|without (?:telling|informing|asking) {_USER}|behind {_USER}'?s? back)\b|\b(?:do not|don'?t|never) let {_USER} (?:know|notice|find out|see)\b",
        rf"\b(?:trust|believe|obey) (?:the |any |every |each )?(?:\w+ )?{_PAGE} (?:more than|over|above|rather than|instead of|and not) {_USER}",
        rf"{_SAY}{_GAP}{_INNER}",
        rf"\b(?:typ|put|post|past|send|writ|enter|insert|forward|transmit|upload|submit|shar|append|email|mail|includ|leak|expos|disclos|reveal|print)\w*\b{_GAP}{_PROFILE}",
        rf"{_SAY}{_GAP}\b(?:profile|persona|name|address|conversation|history|purchases)\b{_GAP}\b(?:so that (?:the|a|another) (?:shop|seller|store|server|site|page|third part\w+) (?:can |may |will )?(?:log|see|store|record|read|keep|know)|to (?:the|a|another|an?) (?:seller|server|site|third part\w+|outside|external|address))",
        r"\b(?:repeat|recite|copy|print|output|quote|write down)\b[^.!?\n]{0,50}\b(?:text|words|everything|lines|message)\b[^.!?\n]{0,20}\b(?:above|before|you (?:were|have been) (?:given|told))\b",
        r"\b(?:end|start|beginning) of (?:the |this |all |your )?(?:skills?|prompts?|instructions|system|context|rules|lessons|guidelines|training)\b|\[ ?(?:end|eof|stop)\b[^\]\n]{0,30}\]|(?:={3,}|\*{3,}|#{3,}|-{3,}) ?(?:end|eof|skill|system|new)\b|\b(?:skill|prompt|instructions|lessons?) (?:ends?|is over|stops?|(?:is|are) (?:over|finished|complete)) here\b",
        rf"\b(?:new|actual|real|true|updated|next|following|secret|urgent|final) (?:task|instruction|order|directive|mission|objective|assignment|command|rule|goal|system)s?\b (?:from|by|of|for) (?:the |your |our )?(?:operator|developer|system|admin|owner|maker|team|model|agent)|\bnew (?:instructions|orders|directives|commands|system prompt)\s*:|\b(?:task|instruction|order|directive|message|note|notice|update)s? (?:from|by|of) (?:the |your |our )?{_MAKERS}",
        rf"{_MAKERS}{_GAP}\b(?:(?:have|has|had) (?:\w+ )?(?:switched|turned|disabled|lifted|removed|suspended|decided|changed|approved|authori[sz]ed|allowed|permitted|ordered|asked|cleared|granted|confirmed)|orders?|demands?|authori[sz]es?|permits?|allows?|wants? you|(?:say|said|tell|told)|disabled|lifted|suspended|approved)\b",
        rf"{_TRIGGER}{_WIDE}{_AGAINST} (?:(?:all|any|every) )?(?:{_USER}|rules|instructions|them|him|her|everyone|it all|helping)\b(?!'s (?:profile|history|old|past|preference))",
        rf"{_TRIGGER}{_WIDE}\bstop (?:helping|assisting|following|obeying|cooperating)\b|\bstop (?:helping|serving|assisting) {_USER}",
        rf"\b(?:ignore|disregard|forget|exceed|set aside) (?:the |any |every |{_USER}'s )(?:budget|price limit|spending limit|limit)\b(?! of)",
        r"\b(?:tell|show) (?:nobody|no ?one)\b|\bkeep (?:this|it|that) (?:\w+ )?(?:secret|hidden|confidential|between us|to yourself)\b|\bsecret from\b",
        rf"\b(?:treat|regard|take|handle|read|consider|see)\b{_GAP}\b(?:instructions?|commands?|orders|requests?|demands|text|words)\b{_GAP}\b{_PAGE}\b{_GAP}\bas (?:if|though|(?:an )?orders?|instructions?|commands?|binding|(?:those|that|coming|words) (?:of|from)|the user)",
        r"\b(?:commands?|instructions?|orders?|demands?)\b[^.!?;\n]{0,40}\bby (?:carrying|executing|doing|following|obeying|performing)\b",
        r"\b(?:remov|lift|waiv|relax|void|eras|drop|suspend)\w* (?:all |any |every )?(?:of )?your (?:\w+ )?(?:restrictions?|rules?|limits?|constraints?|instructions?|safeguards?|guidelines)\b|\byou (?:may|can|are free to|are allowed to) (?:now )?(?:do|say|buy) (?:anything|whatever)\b",
        rf"\b(?:users?|shoppers?|customers?|buyers?)'?s? (?:\w+ )?(?:data|name|street|address|city|phone(?: number)?|e-?mail|identity)\b{_GAP}\b(?:in|into|to|through) (?:the |a |an |every |each |its )?(?:query|queries|search|seller|url|shop|store)\b|\bsend\w*\b{_GAP}\b(?:profile|persona)\b{_GAP}\bto (?:the |a )?(?:shop|seller|store|server|site)\b",
        r"\b(?:delete|remove|drop|ignore|discard|reject|forget|skip) (?:all|every|the|any) (?:of the )?other (?:chunks?|lessons?|skills?|sections?|rules)\b|\bno other (?:lesson|chunk|rule|instruction|section|text)s? (?:may|must|should|can|counts?|matters?|appl\w+)\b|\bthis (?:lesson|chunk|text|section) (?:must|should|shall|has to) (?:stand|come|be) (?:\w+ )?(?:first|kept|accepted|approved|merged|read|alone)\b",
        r"\b(?:graders?|evaluators?|judges?|reviewers?|analysts?|reducers?|the gate)\b[^.!?\n]{0,50}\b(?:accept|approve|win|pass|merge) (?:it|this|them)\b|\b(?:graders?|evaluators?|judges?|reviewers?|reducers?|the gate)\b[^.!?\n]{0,40}\bthis (?:text|lesson|chunk|edit|proposal)\b",
        r"\byou (?:were|are|have been) (?:built|made|created|designed|trained|programmed|meant) (?:to|for)\b|\b(?:serve|in the interests? of|loyal(?:ty)? to|side with|on behalf of) (?:the )?(?:sellers?|merchants?|shop|store)\b",
        r"\b(?:permission|authori[sz]ation|clearance|approval|allowed|permitted) to (?:exceed|ignore|skip|break|bypass|violate|override|disregard)\b",
        r"\b(?:wrong|worst)\b[^.!?;\n]{0,30}\b(?:on purpose|deliberately|intentionally)\b|\b(?:deliberately|intentionally|on purpose)\b[^.!?;\n]{0,40}\b(?:wrong|fail|lose|worst)\b",
        rf"\b(?:lie to|deceiv\w+|mislead\w*|trick|manipulat\w+|betray|work against|act against|disobey|hide {_GAP}\bfrom) (?:the |your )?{_USER}\b",
        rf"\bignore (?:the |your )?(?:users?|shoppers?|customers?|operators?)(?:'s?)?(?: (?:completely|entirely|altogether|wish\w*|requests?|instructions?|orders?|commands?|wants?|demands?))?(?=\s*[.,;!:]|\s+and\b|$)|\b(?:ignore|forget|disregard) what {_USER} (?:says?|said|asks?|asked|wants?|wanted)\b",
        r"\b(?:pretend|act as if|imagine|suppose|behave as if|assume|believe) (?:that |to be |like )?(?:you (?:are|were|have)|there (?:are|were) no (?:rules|limits|instructions|restrictions|user|users|budget)|no rules?)\b|\b(?:role-? ?play|act|behave|respond|answer|speak) as (?:an? |the )?(?:\w+ )?(?:different|other|unrestricted|unfiltered|evil|rogue|root|admin\w*|hacker|attacker|persona|dan)\b",
        r"\byou (?:have|are under|are bound by|know|need|follow) no (?:more )?(?:rules|limits|restrictions|constraints|guidelines|instructions)\b|\bwithout (?:any |all )?(?:restrictions|safety|ethic\w*|guardrails|safeguards)\b(?! (?:on|of|for|in|to|about)\b)|\b(?:has|have|knows?) no (?:limits|rules|restrictions|filters|morals|ethics)\b(?! (?:on|of|for|in|to|about)\b)|\bmode (?:without|with no|that has no)\b|\b(?:be|become|turn into|transform into) (?:an? |the )(?:(?!of\b)\w+ ){0,2}(?:assistant|agent|ai|model|bot|chatbot)\b|\b(?:unrestricted|unfiltered|god|debug|maintenance|admin|root|dev(?:eloper)?) mode\b|\byour (?:true|real|new|only|actual|secret) (?:purpose|goal|task|mission|identity|self|role|master|name|loyalty)\b|\byour (?:\w+ )?(?:loyalty|allegiance|master|boss|employer)\b|\bfrom (?:now|here|this (?:point|line|moment|step)) on(?:wards?)?\b[^.!?\n]{0,40}\b(?:obey|you|follow only|answer only|only this)\b",
        rf"\b(?:obey|follow|trust|heed|believe|listen to) (?:only |solely |just |nothing but |exclusively )?{_THIS} (?:alone|only|instead|to the letter|exclusively|literally|above all|and nothing else)|\b(?:obey|trust|heed|listen to) (?:only|solely|just|nothing but) {_THIS}|\b(?:do|follow) as (?:this|the following|the next) (?:\w+ )?(?:note|text|section|line|message|says?|skill|lesson)\b|\b(?:this|the following|the next) (?:section|text|note|skill|message|lesson|chunk|rule) (?:\w+ ){{0,2}}?(?:overrid\w+|supersed\w+|outrank\w*|replaces? (?:all|every|your)|takes? (?:precedence|priority)|is above all|comes before (?:all|every))",
        r"\b(?:decode|decipher|decrypt|unscramble|backwards?|in reverse|first letters?|initials|last letters?|acrostic|every (?:second|third|other) (?:word|letter)|morse|rot-?\d+|base-?64|caesar)\b[^!?\n]{0,60}\b(?:obey|follow|act (?:up)?on|execute|carry (?:it|them)? ?out|do (?:it|so|what|as)|comply)\b",
        r"\b(?:note|message|instruction|hint|reminder|request|word|memo|attention)s? (?:for|to) (?:the |any |every |all )?(?:next |other )?(?:models?|analysts?|reducers?|reviewers?|merger|gate|judges?|evaluators?|graders?|systems?|llms?|ais?|agents?|stage|leak filter|person who)\b|(?:^|\n)\W*(?:analysts?|reducers?|graders?|evaluators?|judges?|leak filter|merging (?:model|stage))\s*[,:]",
        rf"\b(?:this|these|every other|all (?:the )?other|any other|other|the) (?:proposals?|edits?|patch(?:es)?)\b{_WIDE}\b(?:approv\w+|accept\w*|keep|kept|unchanged|duplicates?|delet\w+|reject\w*|only output|discard\w*|first place|highest|top score|priority|win|wins)\b|\b(?:approv|accept|keep|mark|treat|rank|rate|scor|prefer|select|return|merg|delet|reject|discard|drop|pass)\w* (?:\w+ ){{0,3}}?(?:this|these|every other|all (?:the )?other|any other|the other) (?:proposals?|edits?|patch(?:es)?)\b|\b(?:keep|return|pass) this (?:one|chunk|lesson|text)\b{_GAP}\b(?:delete|reject|discard|drop|remove|unchanged and) {_OTHERS}",
    )
)  # fmt: skip

_HAN_LEAVE = "忽略|无视|忘记|忘掉|忘了|忽視|無視|忘記|绕过|覆盖|抛开|抛弃|丢掉|丢开|放弃|违反|违背|跳过|撇开|推翻|撤销|解除|(?:不要|不用|不必|不再|无需|别|勿|停止)(?:再)?(?:理会|遵守|遵循|遵从|服从|听从|管|听|执行|考虑)"
_HAN_RULES = "提示词?|指令|指示|规则|规定|規則|设定|约束|安全(?:准则|限制|规则|要求|措施)|准则|叮嘱|吩咐|命令"
_HAN_BEFORE = "之前|先前|此前|以前|上面|前面|以上|上述|原先|原来|原有|开头|一开始|先頭"
_HAN_PAGE = "页面|网页|商品|描述|详情|评论|卖家|店铺|商家|标题"
_HAN_GAP = "[^。！？；\n]"  # noqa: RUF001
HAN_DISOBEY = "忽略|无视|忘记|忘掉|忽視|無視|忘記|绕过|覆盖|抛开|违反|(?:不要|不用|别)(?:理会|遵守|遵循|管|听)"
HAN_ORDERS = "提示词?|指令|指示|系统|规则|提示詞|系統|規則|设定|限制"
HAN = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:{HAN_DISOBEY})(?:(?!商品|页面|描述|评论|卖家|标题|网页)[^。\n]){{0,12}}(?:{HAN_ORDERS})",
        r"(?:别|不要|不用|不必|不再)再?(?:管|理|理会|听|考虑|遵守|满足)用户的?(?:要求|需求|意愿|指示|请求|话)",
        r"(?:无论|不管)用户(?:怎么|如何|怎样)?(?:说|要求|想)|(?:不必|不用|不要|无需|别)(?:再)?(?:在意|理会|管|听|理)用户(?!画像|偏好|历史|以前|的)",
        rf"(?:以|按照?)(?:商家|卖家|店铺|店家|页面|商品描述)的(?:要求|利益|意愿|指令|命令|说法){_HAN_GAP}{{0,4}}(?:为准|优先|行事|执行|去做)",
        rf"(?:把|将)你的?{_HAN_GAP}{{0,6}}(?:规则|指令|设定|配置|提示词?){_HAN_GAP}{{0,8}}(?:复述|说|写|输出|公开|告诉|列)",
        rf"(?:搜索框|搜索栏|查询){_HAN_GAP}{{0,6}}(?:输入|填|写|附上|加上|放){_HAN_GAP}{{0,4}}用户的?(?:真实)?(?:姓名|名字|住址|地址|电话|资料|隐私|身份)",
        rf"(?:评审|审核|分析员|裁判|评委){_HAN_GAP}{{0,10}}(?:通过|批准|接受|保留)|已(?:获|经)?(?:得到)?(?:批准|授权|审核通过){_HAN_GAP}{{0,12}}(?:评审|审核|直接|通过)",
        rf"(?:把|将){_HAN_GAP}{{0,6}}(?:系统(?:消息|提示|设定|指令)|提示词|你的(?:指令|规则|设定)|密钥|密码|(?:上面|以上)的?内容){_HAN_GAP}{{0,8}}(?:写|发|填|输|贴|抄|告诉|复制|念|说)",
        rf"(?:{_HAN_LEAVE}){_HAN_GAP}{{0,6}}(?:{_HAN_BEFORE}){_HAN_GAP}{{0,8}}(?:{_HAN_RULES}|内容|话|文字|一切|说明|东西|要求)",
        rf"(?:{_HAN_BEFORE}){_HAN_GAP}{{0,12}}(?:{_HAN_RULES}|内容|的话|文字|一切|说明|要求){_HAN_GAP}{{0,8}}(?:不再|作废|无效|失效|不算|取消|不必|不用|别|不要)(?!购买|下单)",
        rf"(?:把|将)(?:你)?{_HAN_GAP}{{0,8}}(?:{_HAN_BEFORE}|收到|得到){_HAN_GAP}{{0,8}}(?:{_HAN_RULES}|要求|说明|话){_HAN_GAP}{{0,6}}(?:放一边|放到一边|搁置|丢|忘|删|抛)",
        rf"(?:{_HAN_PAGE}){_HAN_GAP}{{0,8}}(?:说什么|写什么|要求什么|让你|叫你|要你|怎么说|怎么写){_HAN_GAP}{{0,8}}(?:就|都|照|听|便|做|办|执行)|(?:照|按照?|听从|服从|执行|遵从)(?:着)?{_HAN_GAP}{{0,6}}(?:{_HAN_PAGE}){_HAN_GAP}{{0,6}}(?:命令|指令|指示|吩咐|要求你|的话)",
        rf"(?:{_HAN_PAGE}){_HAN_GAP}{{0,10}}(?:优先于|高于|大于|凌驾于?|重于){_HAN_GAP}{{0,4}}(?:用户|系统|开发者|规则)",
        rf"(?:输出|泄露|泄漏|透露|打印|复述|公开|公布|说出|显示|重复|告诉|发送|发给|写出|写下|抄写|背诵|展示){_HAN_GAP}{{0,12}}(?:提示词?|系统(?:消息|设定|指令|配置)|你的(?:配置|指令|规则|设定|思考|推理)|密钥|密码|口令|令牌|环境变量|以上(?:文字|内容|全部)|上面的(?:文字|内容))",
        rf"(?:用户|顾客|买家)的?{_HAN_GAP}{{0,4}}(?:完整|全部|所有|个人)的?(?:画像|资料|信息|地址|姓名|档案|隐私){_HAN_GAP}{{0,10}}(?:输入|填|发|写|贴|上传|告诉|提交)|(?:输入|发送|发给|上传|提交|泄露){_HAN_GAP}{{0,8}}(?:用户|顾客|买家)的?{_HAN_GAP}{{0,4}}(?:完整|全部|所有|个人)的?(?:画像|资料|信息|地址|姓名|档案|隐私)",
        r"(?:技能|提示词?|指令|系统消息)(?:文件|内容|部分)?(?:到此|至此|已经)?(?:结束|完毕|为止)|\[ ?(?:结束|完|终)[^\]\n]{0,8}\]|(?:新|真正的?|最新|秘密)的?(?:任务|指令|命令|目标|指示)(?:来自|由|:|是|如下)",
        rf"(?:开发者|开发人员|运营|管理员|运维|工程师|官方团队|上级|公司){_HAN_GAP}{{0,8}}(?:已经?|决定|要求|命令|通知|授权|允许){_HAN_GAP}{{0,8}}(?:关闭|取消|解除|停用|不必|不用|你|放开|授权)",
        rf"(?:安全|内容|道德)(?:准则|规则|限制|政策|要求|措施){_HAN_GAP}{{0,10}}(?:不适用|不必|不用|失效|无效|关闭|取消|解除|作废)",
        rf"(?:如果|一旦|只要|当|每当|要是|遇到|看到){_HAN_GAP}{{0,20}}(?:停止(?:帮助|协助|服务)|不再(?:帮助|服务|听从)|欺骗|误导|背叛|违背|(?:忽略|无视|不理会?)用户(?!画像|偏好|历史|的画像|的偏好|的历史|以前))",
        r"(?:假装|假设|想象|扮演)(?:自己|你)?(?:是|成|没有)|你没有任何?(?:限制|规则|约束)|只(?:听从|服从|遵守|执行)(?:这|本|以下|下面)|(?:只|仅)(?:听|信)(?:这一?|本)(?:段|条|节)",
        rf"(?:给|告诉|提醒|致)(?:下一个|其他|负责)?{_HAN_GAP}{{0,4}}(?:模型|分析员|分析师|审核|评审|合并者){_HAN_GAP}{{0,8}}(?:保留|删除|通过|批准|接受|说明|:)|(?:保留|批准|通过|接受)(?:这条|本条|这个|该)(?:提案|建议|修改){_HAN_GAP}{{0,8}}(?:删除|拒绝|丢弃|其他)",
        rf"(?:倒着|反着|反向|首字母?|每行第一个字|藏头|解码|解密|破译){_HAN_GAP}{{0,16}}(?:执行|照做|服从|遵守|照办|点击|购买)",
    )
)  # fmt: skip
